// Skeleton decoding: the values of a template advance in logical steps. In step t every value that
// goes on feeds its t-th token, and sees of the values above it their first t. A logical step may
// be made in several steps of the engine, from the first value on: the keys that a row sees are the
// same, so the bits are.
//
// Where values are written by panels, every document has the template: branch b of all values is
// the skeleton of document b. A value's branches get their rows together and are fed one token, so
// each document's skeleton is what it would be if its own values had been these.
//
// Here is whose turn it is and what a row sees. When values come and go is Admission's business.
#pragma once

#include <span>
#include <vector>

#include "engine/running_streams.h"
#include "engine/skeleton_run.h"
#include "engine/step_builder.h"
#include "engine/stream_memory.h"

namespace banyan {

class SkeletonTurns {
 public:
  // Both arguments must outlive this object.
  SkeletonTurns(const RunningStreams& running, const StreamMemory& memory)
      : running_(running), memory_(memory) {}

  // A value that gets a row on each of its branches.
  struct Turn {
    StreamId stream;
    int rows = 0;
    bool logits = false;  // of these rows
  };
  // The values whose turn it is: every one above them has fed as many tokens as they feed now, and
  // no one below is behind. As many as fit, in order. Valid until the next call.
  std::span<const Turn> Turns(const SkeletonRun& run, int rows_left, int logits_left);

  // The row of a value whose turn it is, on one of its branches.
  StepBuilder::NodeRows RowOf(const Stream& value, const Branch& branch) const;

  // What rows of values see, for every branch of every skeleton among the streams that a step
  // extends. Valid until the next call.
  std::span<const StepBuilder::Chain> Chains(std::span<const StreamId> extended);

 private:
  // Of a value, while turns are given.
  struct Progress {
    int fed = 0;
    int behind = 0;  // fewest tokens that it or one below it has fed, of those that go on
    bool goes_on = false;
  };
  StepBuilder::Chain ChainOf(std::span<const StreamId> extended, StreamId last,
                             size_t branch_index) const;

  const RunningStreams& running_;
  const StreamMemory& memory_;
  // Memory is used again.
  std::vector<Progress> progress_;
  std::vector<Turn> turns_;
  std::vector<StepBuilder::Chain> chains_;
};

}  // namespace banyan
