// What a strategy (EngineOptions::strategy) changes: which text is stored once, which streams form
// a stack, and how the attention of a step is planned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "banyan/engine.h"
#include "engine/request/request_tree.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "plan/build.h"

namespace banyan {

// Which text is stored once. Equal prefixes are one path, unless a strategy is there to show what
// that saves:
//
//   flat                       every stream has its whole prompt for itself
//   tree, share_levels N       every stream has what is below the first N segments for itself
//   stacked, private_stacks    every stack has its prompts for itself
//
// The values of a skeleton see one another: they have one path whatever the rules say.
class StorageRules {
 public:
  explicit StorageRules(const EngineOptions& options)
      : shared_segments_(SharedSegments(options)),
        private_stacks_(options.strategy == Strategy::kStacked && options.private_stacks) {}

  // Whether other streams may find the segment at `depth` of a path (0: the root) by its tokens.
  bool Shares(const RequestSegment& segment, size_t depth) const {
    return depth < shared_segments_ && !segment.own;
  }

  // Whether streams of the same request find it by what another of them has found. Not across
  // private stacks: there the tokens decide, within the stack's scope.
  bool Remembers(const RequestStream& stream, const RequestSegment& segment, size_t depth) const {
    return !private_stacks_ && (Shares(segment, depth) || stream.skeleton >= 0);
  }

  // Only paths of the same scope are found.
  std::uint64_t ScopeOf(const RequestTree& request, const RequestStream& stream) const {
    if (!private_stacks_) return request.scope;
    // Odd, so that no two stacks of a scope have the same; others' scopes are random or 0.
    constexpr std::uint64_t kStackStep = 0x9e3779b97f4a7c15;
    return request.scope + kStackStep * (static_cast<std::uint64_t>(stream.stack) + 1);
  }

 private:
  static size_t SharedSegments(const EngineOptions& options) {
    if (options.strategy == Strategy::kFlat) return 0;
    if (options.strategy == Strategy::kTree && options.share_levels > 0) {
      return static_cast<size_t>(options.share_levels);
    }
    return std::numeric_limits<size_t>::max();
  }

  size_t shared_segments_;
  bool private_stacks_;
};

// Which streams form a stack (Strategy::kStacked, a comparison), decided in the order of
// submission.
//
// A stack takes `contexts_per_stack` contexts and of each at most `questions_per_stack` questions;
// the next one opens a new stack. Two kinds of streams stay together whatever these numbers say:
// 1. the branches of a panel, whose documents are a stack of their own;
// 2. the values of a skeleton, which see one another.
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

// Throws kUnsupported for what a model whose layers keep states cannot do.
void RefuseForStates(const ModelConfig& config, const EngineOptions& options);

// How steps are planned for a backend, with the built-in costs. Shared with the benchmarks.
PlanOptions PlanOptionsFor(Strategy strategy, const AttentionShape& shape, const Kernels& kernels);

}  // namespace banyan
