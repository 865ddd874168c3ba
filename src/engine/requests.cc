// Ends of answers that come from outside.
#include "engine/core.h"

namespace banyan {

void EngineCore::Cancel(RequestId id, std::optional<std::uint64_t> tag) {
  const std::shared_ptr<RequestTree> request = deliveries_.Find(id);
  if (!request) return;
  if (tag) {
    CancelTagged(request, *tag);
  } else {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      admission_.End(request, static_cast<std::int32_t>(i), FinishReason::kCancelled, "");
    }
  }
  admission_.ForgetRemoved();
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
      admission_.End(request, it->second, FinishReason::kCancelled, "");
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
    Stream& stream = admission_.running().at(declared.running);
    if (stream.wanted().tag != tag) continue;
    under_way_.Forget(stream);
    taker_.FinishAnswer(stream, FinishReason::kCancelled, "");
  }
}

void EngineCore::EndAll(FinishReason reason, const std::string& why) {
  for (const std::shared_ptr<RequestTree>& request : deliveries_.OpenRequests()) {
    for (size_t i = 0; i < request->streams.size(); ++i) {
      admission_.End(request, static_cast<std::int32_t>(i), reason, why);
    }
  }
  admission_.ForgetRemoved();
}

}  // namespace banyan
