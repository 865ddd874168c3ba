// Streams that wait for a place: of requests of which not every stream has run, and those that gave
// their memory back. In order of rank (Stream::rank).
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/stream.h"

namespace banyan {

class WaitingLine {
 public:
  void Add(std::shared_ptr<RequestTree> request);
  // A stream that ran, or was about to, takes its old place.
  void Return(std::unique_ptr<Stream> stream);

  bool empty() const { return streams_ == 0; }
  std::int64_t streams() const { return streams_; }
  std::int64_t tokens() const { return tokens_; }  // of requests that wait as a whole or in part

  // The first in line. REQUIRES: not empty.
  std::unique_ptr<Stream> Take();
  // The first stream's request and its index there. REQUIRES: not empty.
  std::pair<const RequestTree*, std::int32_t> Next() const;

  // Takes one stream of a request out of the line; null: that stream does not wait.
  std::unique_ptr<Stream> Remove(const std::shared_ptr<RequestTree>& request, std::int32_t index);

  // In order, without those that came back.
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

}  // namespace banyan
