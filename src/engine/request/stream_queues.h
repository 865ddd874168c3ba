// Streams in order of rank (Stream::rank): the queue of those that wait, the table of those that
// run.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/request/stream.h"

namespace banyan {

// Streams of requests that have not run yet, and streams that were preempted.
class WaitingQueue {
 public:
  void Add(std::shared_ptr<RequestTree> request);
  // A stream that was taken returns to its place.
  void Return(std::unique_ptr<Stream> stream);

  bool empty() const { return streams_ == 0; }
  std::int64_t streams() const { return streams_; }
  std::int64_t tokens() const { return tokens_; }  // of requests with a stream that has not run

  // The first stream. REQUIRES: not empty.
  std::unique_ptr<Stream> Take();
  // The first stream's request and its index there. REQUIRES: not empty.
  std::pair<const RequestTree*, std::int32_t> Next() const;

  // Takes one stream of a request out of the queue; null: that stream does not wait.
  std::unique_ptr<Stream> Remove(const std::shared_ptr<RequestTree>& request, std::int32_t index);

  // Streams that have not run, in order.
  std::vector<std::pair<const RequestTree*, std::int32_t>> Fresh() const;

 private:
  using Rank = std::tuple<int, RequestId, std::int32_t>;
  struct FreshRequest {
    std::shared_ptr<RequestTree> request;
    std::int32_t next = 0;  // the request's first stream that has not been taken
  };
  using FreshMap = std::map<std::pair<int, RequestId>, FreshRequest>;
  void Settle(FreshMap::iterator at);
  bool NextHasReturned() const;
  static std::unique_ptr<Stream> MakeStream(const std::shared_ptr<RequestTree>& request,
                                            std::int32_t index);

  FreshMap fresh_;
  std::map<Rank, std::unique_ptr<Stream>> returned_;
  std::int64_t streams_ = 0, tokens_ = 0;
};

// The streams that run, by id and in order of rank.
//
// Invariants (CheckInvariants):
// 1. order() has every running stream once, in order of rank. The id of a removed stream stays
//    there and is not reused until ForgetRemoved, so streams may be removed while iterating.
// 2. RequestStream::running is the stream's id while it writes, else none.
// 3. writing() and writing_branches() count the streams whose answers have not ended.
class RunningStreams {
 public:
  // Gives the stream an id. REQUIRES: the stream has its branches.
  Stream& Add(std::unique_ptr<Stream> stream);
  // Takes the stream out. REQUIRES: the stream still has its branches.
  std::unique_ptr<Stream> Remove(StreamId id);
  // A value of a skeleton has ended and stays, because other values see its keys.
  void MarkEnded(Stream& stream);
  void ForgetRemoved();

  // Constant, so that parts that may not add or remove streams can still change one.
  Stream& at(StreamId id) const { return *streams_[id.index()]; }
  bool Has(StreamId id) const { return streams_[id.index()] != nullptr; }
  std::span<const StreamId> order() const { return order_; }
  bool empty() const { return order_.empty(); }
  int writing() const { return writing_; }
  int writing_branches() const { return writing_branches_; }

  void CheckInvariants() const;

 private:
  void Count(const Stream& stream, int sign);

  std::vector<std::unique_ptr<Stream>> streams_;  // by id; null: free, or removed
  std::vector<StreamId> free_ids_;
  std::vector<StreamId> order_;
  int writing_ = 0, writing_branches_ = 0;
};

}  // namespace banyan
