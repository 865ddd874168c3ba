// Who runs and who waits. Waiting streams are let in by rank as far as memory and places last; a
// stream leaves when its answers have ended, or, when a page is missing, to wait again with the
// tokens it has.
//
// Invariants:
// 1. A stream that is not over is in the line, among the running ones, or parked in its
// SkeletonRun.
// 2. The values of a skeleton run together or not at all: they are let in, preempted and freed as
//    one. One that has ended keeps its keys until the last has, because later values see them.
// 3. A stream is preempted at most once: from then on all pages that it can need are its own.
//    The first in order of rank is never preempted by another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/answer_events.h"
#include "engine/request/strategy.h"
#include "engine/request/stream.h"
#include "engine/request/stream_queues.h"
#include "engine/schedule/in_flight.h"

namespace banyan {

class Admission {
 public:
  struct Parts {
    StreamMemory& memory;
    InFlightSteps& in_flight;
    AnswerEvents& events;
  };
  // `max_streams`: branches that write at once, unless one stream alone has more.
  Admission(const EngineOptions& options, int max_streams, const Parts& parts);

  void Add(std::shared_ptr<RequestTree> request);

  // --- admit.cc: the line → running streams with room to begin. A stream that can never get room
  // ends with an error. REQUIRES: those that left are forgotten (ForgetRemoved).
  void Admit();

  // --- leave.cc
  // Room for the stream's next rows, which streams that come last may have to give up. False: the
  // stream itself had to, and does not run any more.
  [[nodiscard]] bool Grow(Stream& stream);
  // The stream has ended: what it held is free. REQUIRES: all its ends are delivered.
  void Retire(Stream& stream);
  // Ends all answers of a stream that are not over, wherever the stream is.
  void End(const std::shared_ptr<RequestTree>& request, std::int32_t index, FinishReason reason,
           const std::string& why);
  // REQUIRES: nobody walks along running().order().
  void ForgetRemoved() { running_.ForgetRemoved(); }

  const RunningStreams& running() const { return running_; }
  const WaitingQueue& waiting() const { return waiting_; }
  int max_streams() const { return max_streams_; }
  std::int64_t preempted() const { return preempted_; }  // streams so far

 private:
  using Streams = std::vector<std::unique_ptr<Stream>>;

  // admit.cc
  bool PlaceForNext() const;
  Streams TakeNext();
  void Return(Streams streams);
  bool StackFits(const Stream& next) const;
  bool Allocate(Streams& streams);
  bool Allocate(Streams& streams, std::int64_t spare, bool least);
  void Begin(std::unique_ptr<Stream> stream);

  // leave.cc
  void EndForMemory(Stream& stream);
  void Preempt(Stream& stream);
  std::unique_ptr<Stream> PutAside(StreamId id);
  void RetireValue(Stream& stream);

  const Strategy strategy_;
  const bool one_by_one_;
  const int most_stacks_;
  const int max_streams_;
  StreamMemory& memory_;
  InFlightSteps& in_flight_;
  AnswerEvents& events_;
  StackNumbers stacks_;
  WaitingQueue waiting_;
  RunningStreams running_;
  bool head_blocked_ = false;  // the next in line did not fit; try again when a stream ends
  bool exclusive_ = false;     // what runs may need all memory there is
  std::int64_t preempted_ = 0;
};

}  // namespace banyan
