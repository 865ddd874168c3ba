// Requests as they come in, and their ends from outside.
#include <algorithm>

#include "engine/core.h"

namespace banyan {

void EngineCore::Accept(std::shared_ptr<RequestTree> request) {
  if (request->streams.empty()) return;
  if (options_.strategy == Strategy::kStacked) NumberStacks(*request);
  receipt_.streams += static_cast<std::int64_t>(request->streams.size());
  requests_.emplace(request->id, request);
  line_.Add(std::move(request));
}

// A stack takes so many contexts, and of a context so many questions; the rest opens a new one.
void EngineCore::NumberStacks(RequestTree& request) {
  for (size_t i = 0; i < request.streams.size(); ++i) {
    RequestStream& stream = request.streams[i];
    if (stream.panel >= 0) {  // its documents make a stack of their own
      stream.stack = ++stack_;
      stack_contexts_ = options_.contexts_per_stack;
      last_context_ = {};
      continue;
    }
    if (i > 0 && stream.skeleton >= 0 && stream.skeleton == request.streams[i - 1].skeleton) {
      stream.stack = stack_;  // they see one another
      continue;
    }
    const std::int32_t context = request.segments[static_cast<size_t>(stream.leaf)].parent;
    const std::pair here(request.id, context);
    if (context < 0 || here != last_context_) {
      ++stack_contexts_;
      context_questions_ = 0;
    }
    ++context_questions_;
    const int most = options_.questions_per_stack;
    if (stack_contexts_ > options_.contexts_per_stack || (most > 0 && context_questions_ > most)) {
      ++stack_;
      stack_contexts_ = 1;
      context_questions_ = 1;
    }
    last_context_ = here;
    stream.stack = stack_;
  }
}

void EngineCore::Cancel(RequestId id, std::optional<std::uint64_t> tag) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  const std::shared_ptr<RequestTree> request = found->second;
  if (tag) {
    CancelTagged(request, *tag);
  } else {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      EndStream(request, static_cast<std::int32_t>(i), FinishReason::kCancelled, "");
    }
  }
  ForgetEnded();
}

void EngineCore::CancelTagged(const std::shared_ptr<RequestTree>& request, std::uint64_t tag) {
  auto& by_tag = request->streams_by_tag;
  if (by_tag.empty()) {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      const RequestStream& stream = request->streams[i];
      for (std::int32_t a = stream.first_answer; a < stream.end_answer; ++a) {
        by_tag.emplace(request->answers[static_cast<size_t>(a)].tag, static_cast<std::int32_t>(i));
      }
    }
  }
  const auto [begin, end] = by_tag.equal_range(tag);
  for (auto it = begin; it != end; ++it) {
    RequestStream& declared = request->streams[static_cast<size_t>(it->second)];
    if (declared.over) continue;
    if (declared.end_answer - declared.first_answer == 1) {
      EndStream(request, it->second, FinishReason::kCancelled, "");
      continue;
    }
    // Answers in turn: the one being written ends now, the others when their turn comes.
    request->cancelled.resize(request->answers.size(), false);
    for (std::int32_t a = declared.first_answer; a < declared.end_answer; ++a) {
      if (request->answers[static_cast<size_t>(a)].tag == tag) {
        request->cancelled[static_cast<size_t>(a)] = true;
      }
    }
    if (!declared.running.valid()) continue;
    Stream& stream = at(declared.running);
    if (stream.wanted().tag != tag) continue;
    ForgetUnderWay(stream);
    FinishAnswer(stream, FinishReason::kCancelled, "");
  }
}

void EngineCore::EndStream(const std::shared_ptr<RequestTree>& request, std::int32_t index,
                           FinishReason reason, const std::string& why) {
  const RequestStream& declared = request->streams[static_cast<size_t>(index)];
  if (declared.over) return;
  if (declared.running.valid()) {
    Stream& stream = at(declared.running);
    DeliverEnds(stream, reason, why);
    Retire(stream);
    return;
  }
  if (const std::unique_ptr<Stream> stream = line_.Remove(request, index)) {
    DeliverEnds(*stream, reason, why);
    no_room_ = false;  // somebody else may be the next in line now
  }
}

void EngineCore::EndAll(FinishReason reason, const std::string& why) {
  std::vector<std::shared_ptr<RequestTree>> all;
  for (const auto& [id, request] : requests_) all.push_back(request);
  std::ranges::sort(all, {}, [](const auto& request) { return request->id; });
  for (const std::shared_ptr<RequestTree>& request : all) {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      EndStream(request, static_cast<std::int32_t>(i), reason, why);
    }
  }
  ForgetEnded();
}

}  // namespace banyan
