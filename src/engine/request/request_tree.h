// A request as the engine keeps it: the declared tree, checked, and the streams that it asks for.
// It stays a tree until its last stream has ended, so that streams reuse the nodes that their
// siblings found, and a waiting stream takes no more memory than what was submitted.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "base/strong_int.h"
#include "load/model_parts.h"
#include "tree/forest.h"

namespace banyan {

struct RequestSegment {
  std::int32_t parent = -1;     // index of the segment above, which comes before it; -1: none
  std::vector<TokenId> tokens;  // not empty
  std::int32_t first_position = 0;
  std::string keep_as;  // see PromptSegment
  NodeMemory node;      // of its last token, when a stream last looked it up
  // Every stream that ends with it has it for itself (TreeForm::last_tokens_apart).
  bool own = false;

  std::int32_t end_position() const {
    return first_position + static_cast<std::int32_t>(tokens.size());
  }
};

// Experts that write an answer together.
struct RequestPanel {
  struct Expert {
    std::int32_t leaf = -1;  // the last segment of its prompt
    double relevance = 1.0;
    std::string own_text = {};  // see ExpertRequest
  };
  PanelOptions options;
  std::vector<Expert> experts;
};

struct RequestStream {
  std::int32_t leaf = -1;   // the last segment of its prompt; the prior's of a panel
  std::int32_t panel = -1;  // index of its panel; -1: none
  // Answers [first_answer, end_answer): one, or several that are written one after another.
  std::int32_t first_answer = 0, end_answer = 0;
  std::int32_t ended = 0;      // of them, so many have an event with their end
  std::int32_t skeleton = -1;  // index in RequestTree::skeletons; -1: none
  int stack = 0;               // stacked: which stack it belongs to
  bool over = false;           // ended or cancelled
  StreamId running;            // while it runs
};

// Streams [first, end) are the values of one template, in its order.
struct RequestSkeleton {
  std::int32_t first = 0, end = 0;
};

// What a request adds to the work of its device, until it is over or has another device.
class WorkShare {
 public:
  WorkShare() = default;
  WorkShare(std::shared_ptr<std::atomic<std::int64_t>> work, std::int64_t tokens)
      : work_(std::move(work)), tokens_(tokens) {
    *work_ += tokens_;
  }
  ~WorkShare() {
    if (work_) *work_ -= tokens_;
  }
  WorkShare(WorkShare&& other) noexcept { *this = std::move(other); }
  WorkShare& operator=(WorkShare&& other) noexcept {
    std::swap(work_, other.work_);
    std::swap(tokens_, other.tokens_);
    return *this;
  }

 private:
  std::shared_ptr<std::atomic<std::int64_t>> work_;
  std::int64_t tokens_ = 0;
};

struct RequestTree {
  using Clock = std::chrono::steady_clock;

  RequestId id = 0;
  int priority = 0;
  std::uint64_t scope = 0;
  std::int32_t variant = 0;  // of the model; see Model::Parts
  std::shared_ptr<AnswerQueue> queue;
  Clock::time_point submitted;
  std::uint64_t first_number = 0;  // of its answers among all of the engine
  std::vector<RequestSegment> segments;
  std::vector<AnswerRequest> answers;
  std::vector<RequestStream> streams;
  std::vector<RequestPanel> panels;
  std::vector<RequestSkeleton> skeletons;
  std::int64_t tokens = 0;  // of all segments
  WorkShare work;           // of its device (RequestRouter)

  std::int32_t streams_left = 0;
  std::vector<bool> cancelled;                                          // [answers], or empty: none
  std::unordered_multimap<std::uint64_t, std::int32_t> streams_by_tag;  // filled when first needed

  // Root first.
  std::vector<std::int32_t> PathTo(std::int32_t segment) const;
  // Of all its branches: one, or a panel's, the prior's first.
  std::vector<std::int32_t> LeavesOf(const RequestStream& stream) const;
  int BranchesOf(const RequestStream& stream) const;
  std::int32_t PromptTokens(const RequestStream& stream) const;
};

// Whether `segment` has children and all of them are leaves: questions of one context.
bool AllLeaves(const PromptSegment& segment);

// How the engine wants requests taken apart.
struct TreeForm {
  bool sequential = false;  // Strategy::kSequential
  // For models that keep states. The last token of a prompt is a segment of its own, because who
  // else has that prompt feeds it for its logits from the state before it. No state after it is
  // worth keeping, nor is one after a short text that ends one prompt only: these segments are
  // `own`, except what a KV store is to keep.
  bool last_tokens_apart = false;
};

// Takes the request apart. REQUIRES: checked.
std::shared_ptr<RequestTree> MakeRequestTree(PromptSegment& request, const TreeForm& form);
inline std::shared_ptr<RequestTree> MakeRequestTree(PromptSegment& request, bool sequential) {
  return MakeRequestTree(request, TreeForm{sequential});
}

}  // namespace banyan
