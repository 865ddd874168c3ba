// Which text is stored once and which apart. Equal beginnings are one path, unless a strategy is
// there to show what that saves:
//
//   flat                       every stream has its whole prompt for itself
//   tree, share_levels N       every stream has what is below the first N segments for itself
//   stacked, private_stacks    every stack has its prompts for itself
//
// The values of a skeleton see one another: they have one path whatever the rules say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "banyan/engine.h"
#include "engine/request_tree.h"

namespace banyan {

class StorageRules {
 public:
  explicit StorageRules(const EngineOptions& options)
      : shared_segments_(SharedSegments(options)),
        private_stacks_(options.strategy == Strategy::kStacked && options.private_stacks) {}

  // Whether other streams may find the segment at `depth` of a path (0: the root) by its tokens.
  bool Shares(size_t depth) const { return depth < shared_segments_; }

  // Whether streams of the same request find it by what another of them has found. Not across
  // stacks that have copies: there the tokens say, within the stack's scope.
  bool Remembers(const RequestStream& stream, size_t depth) const {
    return !private_stacks_ && (Shares(depth) || stream.skeleton >= 0);
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

}  // namespace banyan
