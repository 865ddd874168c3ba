// Skeleton decoding: the values of a template are decoded in lockstep. In logical step t every
// unfinished value feeds its t-th token and sees the first t tokens of the values above it. The
// engine may spread a logical step over several of its own steps, first value first: a row still
// sees the same keys, so its bits are the same.
//
// Where panels write the values, every document has the template: branch b of all values is the
// skeleton of document b. The branches of a value get their rows together and are fed one token, so
// each document's skeleton is what it would be if its own values had been these.
//
// This part decides which values advance and what their rows see. Admission decides when values
// start and end.
#pragma once

#include <span>
#include <vector>

#include "engine/memory/stream_memory.h"
#include "engine/request/stream.h"
#include "engine/schedule/scheduler.h"

namespace banyan {

// Nodes that a skeleton's values see: the first below its parent in the forest, every other below
// the node before it, wherever else in the step that may be. Rows of growing nodes stand here.
using NodeChain = std::vector<NodeId>;

class SkeletonSchedule {
 public:
  // Both arguments must outlive this object.
  SkeletonSchedule(const RunningStreams& running, const StreamMemory& memory)
      : running_(running), memory_(memory) {}

  // A value that gets a row on each of its branches.
  struct Advance {
    StreamId stream;
    int rows = 0;
    bool logits = false;  // of these rows
  };
  // The values that can advance: every one above them has fed as many tokens as they feed now, and
  // none below is behind. As many as fit, in order. Valid until the next call.
  std::span<const Advance> NextRows(const SkeletonRun& run, int rows_left, int logits_left);

  // The row of a value that advances, on one of its branches.
  NodeRows RowOf(const Stream& value, const Branch& branch) const;

  // What rows of values see, for every branch of every skeleton among the streams that a step
  // extends. Valid until the next call.
  std::span<const NodeChain> Chains(std::span<const StreamId> extended);

 private:
  struct Progress {  // of a value
    int fed = 0;
    int behind = 0;  // fewest tokens that it or one below it has fed, of the unfinished ones
    bool unfinished = false;
  };
  NodeChain ChainOf(std::span<const StreamId> extended, StreamId last, size_t branch_index) const;

  const RunningStreams& running_;
  const StreamMemory& memory_;
  // Reused from step to step.
  std::vector<Progress> progress_;
  std::vector<Advance> advances_;
  std::vector<NodeChain> chains_;
};

}  // namespace banyan
