// Steps in flight: launched on the backend, their tokens not yet read by the host.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/strong_int.h"
#include "engine/request/stream.h"
#include "kernels/kernels.h"

namespace banyan {

struct LaunchedStep {
  // Prepares for another step in the same memory.
  void Clear() {
    logits = {};
    readers.clear();
    rows.clear();
    branches.clear();
    owner_choices.clear();
    decode_only = take_at_once = false;
  }

  Tensor logits;  // [logit rows, vocab]; valid until the next step is launched
  std::unique_ptr<PendingChoices> choices;
  // [choices but second ones] the stream whose next token each is. None: the stream ended with an
  // earlier token, and the result is dropped.
  std::vector<StreamId> readers;
  std::vector<std::int32_t> rows;  // [choices] of the logits; the prior's of a panel
  std::vector<int> branches;       // [choices] rows that each was made of
  // [readers] the place of a second choice, of the expert that has begun a word; -1: none. Empty:
  // there is none at all.
  std::vector<std::int32_t> owner_choices;
  bool decode_only = false;  // no prefill rows
  // The tokens must be read before another step is launched: a stream wants the logits, or its
  // next token depends on this one in a way that only the host computes.
  bool take_at_once = false;
};

// Invariant: Stream::tokens_in_flight is the number of these steps that sample a token for the
// stream, and Stream::choice its place among the choices of the latest.
class InFlightSteps {
 public:
  size_t size() const { return steps_.size(); }
  bool empty() const { return steps_.empty(); }
  const LaunchedStep& latest() const { return steps_.back(); }
  // What rows of the next step may feed (ChoiceToken); null: no step is in flight.
  PendingChoices* latest_choices() const {
    return steps_.empty() ? nullptr : steps_.back().choices.get();
  }

  // A cleared step, in the memory of a recycled one if there is one.
  LaunchedStep New() {
    LaunchedStep step;
    if (recycled_.empty()) return step;
    step = std::move(recycled_.back());
    recycled_.pop_back();
    step.Clear();
    return step;
  }
  void Add(LaunchedStep step) { steps_.push_back(std::move(step)); }
  LaunchedStep TakeOldest() {
    LaunchedStep step = std::move(steps_.front());
    steps_.erase(steps_.begin());
    return step;
  }
  // `step` was taken: New may reuse its memory.
  void Recycle(LaunchedStep step) { recycled_.push_back(std::move(step)); }

  // Drops a token that is being sampled for the stream. REQUIRES: of no step but the latest (one
  // that is being taken does not count).
  void Forget(Stream& stream) {
    if (stream.tokens_in_flight == 0) return;
    steps_.back().readers[static_cast<size_t>(stream.choice)] = StreamId();
    stream.tokens_in_flight = 0;
  }
  // Drops all steps. The caller sets Stream::tokens_in_flight of their readers to 0.
  void Clear() { steps_.clear(); }

 private:
  std::vector<LaunchedStep> steps_;  // oldest first
  std::vector<LaunchedStep> recycled_;
};

}  // namespace banyan
