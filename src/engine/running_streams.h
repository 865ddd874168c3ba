// The streams that run: by id, and in order of rank (Stream::rank).
//
// Invariants (CheckInvariants):
// 1. order() has every running stream once, in order of rank. The id of a stream that was removed
//    stays there, and is given to nobody, until ForgetRemoved: whoever walks along order() may
//    remove streams.
// 2. RequestStream::running is the stream's id while it writes, else none.
// 3. writing() and writing_branches() count the streams whose answers have not ended.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/stream.h"

namespace banyan {

class RunningStreams {
 public:
  // Gives the stream an id and its place. REQUIRES: the stream has its branches.
  Stream& Add(std::unique_ptr<Stream> stream);
  // Takes the stream out. REQUIRES: the stream still has its branches.
  std::unique_ptr<Stream> Remove(StreamId id);
  // A value of a skeleton has its answer and stays, because other values see its keys.
  void MarkEnded(Stream& stream);
  void ForgetRemoved();

  // Whoever has this table may change a stream, but only the table's owner adds and removes some.
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
