// A stream: one answer (or, with Strategy::kSequential, several one after another) being decoded.
// The queue of those that wait and the table of those that run, both in order of rank.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "base/strong_int.h"
#include "decode/answer_text.h"
#include "engine/request/expert_turns.h"
#include "engine/request/request_tree.h"
#include "tree/forest.h"

namespace banyan {

// A path on which a stream's answer is written.
struct Branch {
  NodeId leaf;  // the prompt's last node; pinned while it runs
  // The growing node: tokens of all answers of the stream, after those that it took over from the
  // leaf (Forest::AddTail).
  NodeId tail;
  // Where layers keep states: the nodes in whose slots these two go on, as nothing else begins with
  // those states. Invalid: they have slots of their own.
  NodeId before_leaf, before_tail;
};
struct SkeletonRun;

struct Stream {
  enum class State { kWaiting, kPrefill, kDecode };

  StreamId id;  // while it runs
  State state = State::kWaiting;
  std::shared_ptr<RequestTree> request;
  std::int32_t index = 0;         // of the stream in its request
  std::int32_t answer_index = 0;  // of the answer being written, in its request
  std::int32_t end_answer = 0;
  int prompt_tokens = 0;
  bool began = false;  // it has run, perhaps before a preemption
  // Of a skeleton's value, while it runs or was preempted: shared by all values of the skeleton.
  std::shared_ptr<SkeletonRun> skeleton;
  // Of a skeleton's value: its answer has ended. The stream stays without rows, because other
  // values see its keys.
  bool ended = false;

  // While the stream runs: one branch, or all branches of its panel, that of the answer's own
  // segment first (the prior, if the panel has one). The answer is written on all of them.
  std::vector<Branch> branches;
  // It was preempted. When it runs again, it reserves all pages that it can need, and is not
  // preempted again.
  bool preempted = false;
  std::vector<TokenId> written;  // of all its answers, while it is preempted

  int tokens_in_flight = 0;  // launched steps that sample a token for it: 0 to 2
  std::int32_t choice = 0;   // its place among the choices of the latest of them

  Answer answer;                     // the one being written
  std::unique_ptr<AnswerText> text;  // null: not wanted
  std::chrono::steady_clock::time_point last_token;
  // Of a constrained answer: its state, and the tokens that are allowed next.
  std::optional<ConstraintState> constraint;
  std::shared_ptr<const std::vector<std::uint32_t>> allowed;
  std::unique_ptr<ExpertTurns> turns;  // of a panel whose experts take turns; else null

  const AnswerRequest& wanted() const {
    return request->answers[static_cast<size_t>(answer_index)];
  }
  const Branch& lead() const { return branches.front(); }
  // Whether its prompt is done; otherwise it waits for prefill.
  bool decodes() const { return state == State::kDecode || tokens_in_flight > 0 || ended; }
  bool has_panel() const { return declared().panel >= 0; }
  const RequestPanel& panel() const {
    return request->panels[static_cast<size_t>(declared().panel)];
  }
  RequestStream& declared() const { return request->streams[static_cast<size_t>(index)]; }
  // Tokens of the answer being written, at most.
  size_t most_tokens() const {
    return wanted().forced.empty() ? static_cast<size_t>(wanted().max_new) : wanted().forced.size();
  }

  // Lower ranks are admitted first, get rows first, and are preempted last.
  std::tuple<int, RequestId, std::int32_t> rank() const {
    return {-request->priority, request->id, index};
  }
};

// A stream of the request that writes those of its answers that have not ended.
std::unique_ptr<Stream> MakeStream(const std::shared_ptr<RequestTree>& request, std::int32_t index);

// The values of one skeleton. They are admitted, advance and are preempted together. A value that
// has ended keeps its keys, because later ones see them.
struct SkeletonRun {
  std::vector<StreamId> members;  // while they run, in order of the template; ended ones included
  // While they are preempted: those that have ended. The others are in the waiting queue.
  std::vector<std::unique_ptr<Stream>> parked;
};

// Streams of requests that have not run yet, and streams that were preempted.
class WaitingQueue {
 public:
  // Throws std::bad_alloc, and nothing has changed.
  void Add(const std::shared_ptr<RequestTree>& request);
  // Takes a request out that was just added.
  void TakeBack(const RequestTree& request);
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

  // A stream of the request that has run and waits again; null: it does not.
  Stream* Returned(const RequestTree& request, std::int32_t index) const;

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
