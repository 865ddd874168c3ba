#include "tasks/extract/extract_work.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

bool HasWords(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || (byte >= '0' && byte <= '9') ||
           ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
  });
}

ExtractWork::ExtractWork(const ExtractSettings& settings, std::vector<ExtractRecord> records,
                         ReadingOptions reading)
    : settings_(settings),
      plan_(*records.front().plan),
      records_(std::move(records)),
      reading_(std::move(reading)),
      cut_bytes_(records_.size()) {}

std::vector<PromptSegment> ExtractWork::NextPrompts() {
  const int stage = ++stage_;
  if (stage == 1) {
    const bool empty = std::ranges::none_of(
        records_, [](const ExtractRecord& record) { return HasWords(record.text); });
    return empty ? std::vector<PromptSegment>() : ValuePrompts();
  }
  if (stage == 2 && !problem_) return SecondPrompts();
  return {};
}

void ExtractWork::Take(Answer answer) {
  if (answer.finish == FinishReason::kError && !problem_) {
    problem_ = {ErrorKind::kLimit, answer.error};
  }
  const AnswerPlace& place = places_[answer.tag];
  Part& part = parts_[place.part];
  Answer& kept = place.candidate ? part.looks.at(place.slot)[*place.candidate].answer
                 : place.item    ? part.items[*place.item].answers[place.slot]
                                 : part.answers[place.slot];
  kept = std::move(answer);
}

size_t ExtractWork::RowOf(std::uint64_t tag) const {
  const AnswerPlace& place = places_[tag];
  return place.item ? 0
                    : place.slot / leaves();  // objects of lists are of documents that stand alone
}

void ExtractWork::Refuse(const Error& error) { problem_ = {error.kind(), error.what()}; }

std::string ExtractWork::Show() {
  std::vector<std::string_view> documents;
  for (const ExtractRecord& record : records_) documents.push_back(record.text);
  const std::string text =
      settings_.options.stack > 1 ? WriteDocuments(documents) : std::string(documents.front());
  std::string shown;
  for (const PromptPart& part : Write(text)) shown += part.text;
  const std::string close = ClosingAfter(plan_.leaves, leaves() - 1);
  for (const SlotGroup& group : Groups()) {
    if (group.begin > 0) shown += "}\n";
    for (size_t i = group.begin; i < group.end; ++i) shown += plan_.slots[i].piece + " …";
  }
  return shown + close + (settings_.options.stack > 1 ? "}}" : "}");
}

}  // namespace banyan
