// A request as the engine keeps it: the declared tree, checked, and the streams that it asks for.
// It stays a tree until its last stream has ended, so that streams find the nodes of their path by
// what their siblings found, and a waiting stream costs no more than what was submitted.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "banyan/engine.h"
#include "base/strong_int.h"
#include "engine/model_parts.h"
#include "tree/forest.h"

namespace banyan {

struct RequestSegment {
  std::int32_t parent = -1;     // index of the segment above, which comes before it; -1: none
  std::vector<TokenId> tokens;  // not empty
  std::int32_t first_position = 0;
  NodeMemory node;  // of its last token, when a stream last looked it up

  std::int32_t end_position() const {
    return first_position + static_cast<std::int32_t>(tokens.size());
  }
};

struct RequestStream {
  std::int32_t leaf = -1;  // the last segment of its prompt
  // Answers [first_answer, end_answer): one, or several that are written in turn.
  std::int32_t first_answer = 0, end_answer = 0;
  std::int32_t skeleton = -1;  // index in RequestTree::skeletons; -1: none
  int stack = 0;               // stacked: which stack it belongs to
  bool over = false;           // ended or cancelled
  StreamId running;            // while it runs
};

// Streams [first, end) are the values of one template, in its order.
struct RequestSkeleton {
  std::int32_t first = 0, end = 0;
};

struct RequestTree {
  using Clock = std::chrono::steady_clock;

  RequestId id = 0;
  int priority = 0;
  std::shared_ptr<AnswerQueue> queue;
  Clock::time_point submitted;
  std::uint64_t first_number = 0;  // of its answers among all of the engine
  std::vector<RequestSegment> segments;
  std::vector<AnswerRequest> answers;
  std::vector<RequestStream> streams;
  std::vector<RequestSkeleton> skeletons;
  std::int64_t tokens = 0;  // of all segments

  std::int32_t streams_left = 0;
  std::vector<bool> cancelled;                                          // [answers], or empty: none
  std::unordered_multimap<std::uint64_t, std::int32_t> streams_by_tag;  // filled when first needed

  // Root first.
  std::vector<std::int32_t> PathTo(std::int32_t segment) const;
  std::int32_t PromptTokens(const RequestStream& stream) const;
};

struct RequestSize {
  std::int64_t answers = 0, tokens = 0;
};

// Throws as Engine::TrySubmit says. `sequential`: the questions of a context are one prompt, their
// answers written in turn (Strategy::kSequential).
RequestSize CheckRequest(const PromptSegment& request, const Model::Parts& model, bool sequential);

// Takes the request apart. REQUIRES: checked.
std::shared_ptr<RequestTree> MakeRequestTree(PromptSegment& request, bool sequential);

}  // namespace banyan
