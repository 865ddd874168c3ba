// One step of a model taken apart, for benchmarks: the time of each operation and of the whole.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/model.h"

namespace banyan {

// A decode step of `streams` streams, each with a token of its own, or a piece of a prompt:
// `streams` is 1 and `rows` tokens are computed. Before them stand `prefix` tokens that all streams
// share, or as many of each stream's own.
struct StepTask {
  int streams = 1;
  int rows = 1;  // of each stream
  int prefix = 0;
  bool shared = true;  // the prefix
  Strategy strategy = Strategy::kAuto;
};

// All calls of an operation in one step.
struct OperationTime {
  std::string name;
  double seconds = 0.0;
  double flops = 0.0;  // 0: not what bounds it
  double bytes = 0.0;  // of weights or KV, each once
};

struct StepReport {
  int rows = 0;
  double seconds = 0.0;  // of the whole step, the choice of tokens included
  std::vector<OperationTime> operations;
};

class StepBench {
 public:
  // The least of `runs` runs counts. The model must not be in use elsewhere.
  StepBench(std::shared_ptr<Model> model, int runs);
  ~StepBench();

  // Throws kUsage on a task that no model of this context length can have.
  StepReport Measure(const StepTask& task);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan
