// Which streams form a stack (Strategy::kStacked, a comparison), decided in the order of
// submission.
//
// A stack takes `contexts_per_stack` contexts and of each at most `questions_per_stack` questions;
// the next one opens a new stack. Two kinds of streams stay together whatever these numbers say:
// 1. the branches of a panel, whose documents are a stack of their own;
// 2. the values of a skeleton, which see one another.
#pragma once

#include <cstdint>
#include <utility>

#include "banyan/engine.h"
#include "engine/request_tree.h"

namespace banyan {

class StackNumbers {
 public:
  explicit StackNumbers(const EngineOptions& options)
      : most_contexts_(options.contexts_per_stack), most_questions_(options.questions_per_stack) {}

  // Sets RequestStream::stack of all its streams. Numbers never fall.
  void Number(RequestTree& request);

 private:
  const int most_contexts_;
  const int most_questions_;  // of a context; 0: all
  int stack_ = 0;
  int contexts_ = 0;                                   // in this stack
  int questions_ = 0;                                  // of the last context in this stack
  std::pair<RequestId, std::int32_t> last_context_{};  // request, segment
};

}  // namespace banyan
