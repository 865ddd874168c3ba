// What the benchmarks' command lines have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "run_options.h"

namespace banyan::app {

// A model from files, or random weights at a known shape.
struct BenchModel {
  RunOptions run;
  std::string shape;    // random weights at this shape instead of a model
  std::string weights;  // empty: bf16 on cuda, q8_0 elsewhere
  bool random = false;  // says that --shape means random weights; it always does

  void AddTo(CLI::App& command);
  // Checks the options, then loads or makes the model. Throws kUsage.
  std::shared_ptr<Model> Load();
};

// "flat,paged,tree" → names checked by ParseStrategy. Throws kUsage.
std::vector<Strategy> ParseStrategies(const std::string& names);

}  // namespace banyan::app
