// Steps that the backend has and whose tokens the host has not taken yet.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/strong_int.h"
#include "engine/stream.h"
#include "kernels/kernels.h"

namespace banyan {

struct LaunchedStep {
  // For another step, in the same memory.
  void Clear() {
    logits = {};
    readers.clear();
    rows.clear();
    branches.clear();
    decode_only = take_at_once = false;
  }

  Tensor logits;  // [logit rows, vocab]; valid until the next step is launched
  std::unique_ptr<PendingChoices> choices;
  // [choices] whose next token each is; none: the stream ended with an earlier token, and what this
  // step computed for it is of no use.
  std::vector<StreamId> readers;
  std::vector<std::int32_t> rows;  // [choices] of the logits; the prior's of a panel
  std::vector<int> branches;       // [choices] rows that each was made of
  bool decode_only = false;        // no rows of prompts
  // The tokens must be taken before another step is launched: somebody wants the logits, or asks
  // for a next token in a way that depends on this one.
  bool take_at_once = false;
};

// Invariant: Stream::tokens_under_way is the number of these steps that choose a token for the
// stream, and Stream::choice its place among the choices of the latest.
class StepsUnderWay {
 public:
  // Oldest first.
  size_t size() const { return steps_.size(); }
  bool empty() const { return steps_.empty(); }
  const LaunchedStep& latest() const { return steps_.back(); }
  // What rows of the next step may feed (ChoiceToken); null: nothing is under way.
  PendingChoices* latest_choices() const {
    return steps_.empty() ? nullptr : steps_.back().choices.get();
  }

  // A cleared step, in the memory of one that was taken if there is one.
  LaunchedStep New();
  void Add(LaunchedStep step) { steps_.push_back(std::move(step)); }
  LaunchedStep TakeOldest();
  // `step` was taken: New may use its memory again.
  void Recycle(LaunchedStep step) { taken_.push_back(std::move(step)); }

  // A token that is being chosen for the stream goes to nobody. REQUIRES: of no step but the latest
  // (one that is being taken does not count).
  void Forget(Stream& stream);
  // The steps are of no use. The caller sets Stream::tokens_under_way of their readers to 0.
  void Clear() { steps_.clear(); }

 private:
  std::vector<LaunchedStep> steps_;
  std::vector<LaunchedStep> taken_;
};

}  // namespace banyan
