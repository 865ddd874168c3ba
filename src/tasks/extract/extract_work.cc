// Two stages of prompts, then the row; the layout of a prompt for training.
#include "tasks/extract/extract_work.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/extract/extract_second_look.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The pieces of a template: each is the only segment below the one before.
OrderedJson SlotsOf(const PromptSegment& first, std::int64_t position) {
  OrderedJson slots = OrderedJson::array();
  for (const PromptSegment* piece = &first; piece != nullptr;
       piece = piece->below.empty() ? nullptr : &piece->below.front()) {
    position = piece->first_position.value_or(static_cast<std::int32_t>(position));
    slots.push_back({{"tokens", piece->tokens},
                     {"position", position},
                     {"max_tokens", piece->answers.front().max_new}});
    position += static_cast<std::int64_t>(piece->tokens.size());
  }
  return slots;
}

}  // namespace

bool HasWords(std::string_view text) {
  return std::ranges::any_of(text, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || (byte >= '0' && byte <= '9') ||
           ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
  });
}

ExtractWork::ExtractWork(const ExtractSettings& settings, std::vector<ExtractRecord> records,
                         ReadingOptions reading)
    : stack_{settings, std::move(records), std::move(reading)},
      builder_(stack_),
      constraints_(stack_),
      templates_(stack_) {}

std::vector<PromptSegment> ExtractWork::NextPrompts() {
  const int stage = ++stage_;
  if (stage == 1) {
    const bool empty = std::ranges::none_of(
        stack_.records, [](const ExtractRecord& record) { return HasWords(record.text); });
    return empty ? std::vector<PromptSegment>() : FirstPrompts();
  }
  if (stage == 2 && !problem_) return SecondPrompts();
  return {};
}

std::vector<PromptSegment> ExtractWork::FirstPrompts() {
  std::vector<PromptSegment> prompts;
  for (ExtractPrompt& prompt : builder_.Build()) parts_.emplace_back().prompt = std::move(prompt);
  for (size_t p = 0; p < parts_.size(); ++p) {
    ExtractPart& part = parts_[p];
    part.constraints = constraints_.OfAll(part.prompt);
    part.answers.resize(part.constraints.size());
    prompts.push_back(templates_.FirstStage(p, part));
  }
  return prompts;
}

std::vector<PromptSegment> ExtractWork::SecondPrompts() {
  std::vector<PromptSegment> prompts;
  const SecondLookFinder finder(stack_, constraints_);
  for (size_t p = 0; p < parts_.size(); ++p) {
    finder.Find(parts_[p]);
    if (auto prompt = templates_.SecondStage(p, parts_[p])) prompts.push_back(std::move(*prompt));
  }
  return prompts;
}

void ExtractWork::Take(Answer answer) {
  if (answer.finish == FinishReason::kError && !problem_) {
    problem_ = {ErrorKind::kLimit, answer.error};
  }
  const SlotPlace& place = templates_.PlaceOf(answer.tag);
  ExtractPart& part = parts_[place.part];
  Answer& kept = place.candidate ? part.looks.at(place.slot)[*place.candidate].answer
                 : place.item    ? part.items[*place.item].answers[place.slot]
                                 : part.answers[place.slot];
  kept = std::move(answer);
}

// Objects of lists are of documents that stand alone.
size_t ExtractWork::RowOf(std::uint64_t tag) const {
  const SlotPlace& place = templates_.PlaceOf(tag);
  return place.item ? 0 : place.slot / stack_.leaves();
}

void ExtractWork::Refuse(const Error& error) { problem_ = {error.kind(), error.what()}; }

std::vector<ExtractedValue> ExtractWork::Values(size_t document) const {
  std::vector<std::vector<ExtractedValue>> parts;
  for (const ExtractPart& part : parts_) parts.push_back(ValuesOfPart(stack_, part, document));
  return parts.empty() ? ValuesWithoutText(stack_.plan()) : JoinParts(std::move(parts));
}

OutputRow ExtractWork::Row(size_t document) {
  const ExtractRecord& record = stack_.records[document];
  if (problem_) return ErrorRowOf(record, *problem_);
  RowFacts facts;
  facts.prompt_tokens = prompt_tokens();
  facts.parts = parts_.size();
  if (stack_.stacked()) facts.stacked = stack_.records.size();
  facts.cut_bytes = cut_bytes(document);
  return RowOfValues(stack_.settings, record, Values(document), facts);
}

std::int64_t ExtractWork::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (const ExtractPart& part : parts_) {
    tokens += static_cast<std::int64_t>(part.prompt.encoded.tokens.size());
  }
  return tokens;
}

size_t ExtractWork::cut_bytes(size_t document) const {
  if (parts_.size() != 1) return 0;  // nothing is lost of a document in parts
  return stack_.records[document].text.size() - parts_.front().prompt.documents[document].size();
}

// What NextPrompts hands to the engine, and the texts that its slots stand for. A schema that is
// divided has several templates: the slots of each begin at the prompt's end.
std::string ExtractWork::Layout() {
  const std::vector<PromptSegment> prompts = NextPrompts();
  if (prompts.size() != 1) {
    Throw(ErrorKind::kLimit, "--layout: the document does not fit the model's context in one part");
  }
  const std::vector<ExtractRecord>& records = stack_.records;
  const std::vector<TokenId>& tokens = parts_.front().prompt.encoded.tokens;
  OrderedJson row = {{"id", records.front().id}, {"prompt", tokens}};
  if (records.size() > 1) {
    for (const ExtractRecord& record : records) row["ids"] += OrderedJson(record.id);
  }
  row["slots"] = OrderedJson::array();
  const PromptSegment& document = prompts.front().below.front();
  for (const PromptSegment& first : document.below) {
    for (OrderedJson& slot : SlotsOf(first, static_cast<std::int64_t>(tokens.size()))) {
      row["slots"].push_back(std::move(slot));
    }
  }
  row["together"] = document.below.front().skeleton;
  OrderedJson& pieces = row["pieces"] = OrderedJson::array();
  const CategoryPlan& plan = stack_.plan();
  for (size_t i = 0; i < stack_.slots(); ++i) {
    OrderedJson piece = {{"name", plan.leaves[i % stack_.leaves()].name},
                         {"text", plan.slots[i].piece},
                         {"rest", plan.slots[i].rest}};
    if (records.size() > 1) piece["document"] = i / stack_.leaves();
    pieces.push_back(std::move(piece));
  }
  return DumpJson(row);
}

}  // namespace banyan
