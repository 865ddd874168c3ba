// A stream: one answer (or, with Strategy::kSequential, several one after another) being decoded.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "base/strong_int.h"
#include "decode/answer_text.h"
#include "engine/request/request_tree.h"
#include "tree/forest.h"

namespace banyan {

// A path on which a stream's answer is written.
struct Branch {
  NodeId leaf;  // the prompt's last node; pinned while it runs
  // The growing node: tokens of all answers of the stream, after those that it took over from the
  // leaf (Forest::AddTail).
  NodeId tail;
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

  const AnswerRequest& wanted() const {
    return request->answers[static_cast<size_t>(answer_index)];
  }
  const Branch& lead() const { return branches.front(); }
  // Whether its prompt is done; otherwise it waits for prefill.
  bool decodes() const { return state == State::kDecode || tokens_in_flight > 0 || ended; }
  bool has_panel() const { return declared().panel >= 0; }
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

// The values of one skeleton. They are admitted, advance and are preempted together. A value that
// has ended keeps its keys, because later ones see them.
struct SkeletonRun {
  std::vector<StreamId> members;  // while they run, in order of the template; ended ones included
  // While they are preempted: those that have ended. The others are in the waiting queue.
  std::vector<std::unique_ptr<Stream>> parked;
};

}  // namespace banyan
