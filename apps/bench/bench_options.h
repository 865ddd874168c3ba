// What the benchmarks' command lines have in common.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench_run.h"
#include "job/job_options.h"

namespace banyan::app {

// A model from files, or random weights at a known shape, and how it is to be run.
struct BenchModel {
  RunOptions run;
  std::string shape;          // random weights at this shape instead of a model
  std::string weights;        // empty: bf16 on cuda, q8_0 elsewhere
  bool random = false;        // says that --shape means random weights; it always does
  std::string default_shape;  // with neither --shape nor -m
  std::string strategies = "auto,tree,paged,stacked,flat,no-attention";
  std::int64_t flat_tokens = -1;  // see BenchRun; -1: by the device
  int repeat = 1;
  bool cold = false;  // no warm-up
  std::string json;   // file, "-" for stdout, or empty

  // Adds everything that a job is run with. REQUIRES: defaults are set.
  void AddTo(CLI::App& command);
  // Checks the options, then loads or makes the model. Throws kUsage.
  BenchRun Prepare();

 private:
  void ChooseShape();  // throws kUsage unless there is one model
  std::shared_ptr<Model> Load();
};

// "flat,paged,tree" → names checked by ParseStrategy. Throws kUsage.
std::vector<Strategy> ParseStrategies(const std::string& names);

}  // namespace banyan::app
