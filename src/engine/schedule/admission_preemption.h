// Which streams run and which wait. Waiting streams are admitted in order of rank, as far as memory
// and max_streams allow. When no page is free, the running stream of lowest rank is preempted: it
// frees its pages and waits again with the tokens it has.
//
// Invariants:
// 1. A stream that is not over is waiting, running, or parked in its SkeletonRun.
// 2. The values of a skeleton are admitted, preempted and freed together. One that has ended keeps
//    its keys until the last has ended, because later values see them.
// 3. A stream is preempted at most once: when it runs again, it reserves all pages that it can
//    need. The first in order of rank is never preempted by another.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "engine/memory/stream_memory.h"
#include "engine/request/answer_events.h"
#include "engine/request/strategy.h"
#include "engine/request/stream.h"
#include "engine/schedule/in_flight.h"

namespace banyan {

class Admission {
 public:
  struct Parts {
    StreamMemory& memory;
    InFlightSteps& in_flight;
    AnswerEvents& events;
  };
  // `max_streams`: branches that decode at once, unless one stream alone has more.
  Admission(const EngineOptions& options, int max_streams, const Parts& parts);

  // Throws std::bad_alloc, and nothing has changed.
  void Add(const std::shared_ptr<RequestTree>& request);

  // Moves waiting streams to the running ones, with pages for their prompts. A stream that can
  // never get enough pages ends with an error. REQUIRES: ForgetRemoved was called.
  void Admit();

  // Pages for the stream's next rows; streams of lower rank are preempted for them. False: the
  // stream itself was preempted or has ended.
  [[nodiscard]] bool Grow(Stream& stream);
  // The stream has ended: frees its pages. REQUIRES: all its ends are delivered.
  void Retire(Stream& stream);
  // Ends all answers of a stream that are not over, wherever the stream is.
  void End(const std::shared_ptr<RequestTree>& request, std::int32_t index, FinishReason reason,
           const std::string& why);
  // A stream of the request that runs or waits again; null: it has not run yet, or is over.
  Stream* Find(const std::shared_ptr<RequestTree>& request, std::int32_t index) const;
  // REQUIRES: no caller iterates over running().order().
  void ForgetRemoved() { running_.ForgetRemoved(); }

  const RunningStreams& running() const { return running_; }
  const WaitingQueue& waiting() const { return waiting_; }
  int max_streams() const { return max_streams_; }
  std::int64_t preempted() const { return preempted_; }  // streams, so far

 private:
  using Streams = std::vector<std::unique_ptr<Stream>>;

  bool PlaceForNext() const;
  Streams TakeNext();
  void Requeue(Streams streams);
  bool StackFits(const Stream& next) const;
  bool Allocate(Streams& streams);
  bool AllocateAll(Streams& streams, std::int64_t spare, bool least);
  void Begin(std::unique_ptr<Stream> stream);
  void EndForMemory(Stream& stream);
  void Preempt(Stream& stream);
  std::unique_ptr<Stream> TakeBack(StreamId id);
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
  bool head_blocked_ = false;  // the next waiting stream did not fit; retried when a stream ends
  bool exclusive_ = false;     // the running streams may need all memory: none joins them
  std::int64_t preempted_ = 0;
};

}  // namespace banyan
