// What is asked in the second stage, from the first answers; then the two stages of prompts and the
// row, and the layout of a prompt for training.
#include "tasks/extract/extract_work.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/extract/extract_convert.h"

namespace banyan {

namespace {

constexpr size_t kMostScored = 64;     // values of an enum that are scored one by one
constexpr size_t kMostMentions = 128;  // texts to choose among

bool IsConverted(const ExtractAttribute& attribute) {
  return attribute.kind == ValueKind::kNumber || attribute.kind == ValueKind::kInteger ||
         attribute.kind == ValueKind::kDate || !attribute.units.empty();
}

// Whether the card's bias takes a null of this log-probability for a value.
bool IsDoubtfulNull(double logprob, double bias) {
  const double none = std::min(logprob, -1e-9);
  return bias < 0.0 && none - std::log(-std::expm1(none)) + bias < 0.0;
}

std::vector<ValueSlot> EachAlone(const ValueSlot& slot, const std::vector<std::string>& values) {
  std::vector<ValueSlot> slots;
  for (const std::string& value : values) slots.push_back(WithOnly(slot, {value}, false));
  return slots;
}

}  // namespace

std::vector<WrittenValue> WrittenValues(const ExtractStack& stack, const ExtractPart& part,
                                        size_t document) {
  const std::vector<ValueSlot>& slots = stack.plan().slots;
  if (stack.sequential()) return ReadSequence(slots, *part.constraints[0], part.answers[0]);
  std::vector<WrittenValue> written;
  for (size_t i = document * stack.leaves(); i < (document + 1) * stack.leaves(); ++i) {
    written.push_back(ReadSlot(slots[i], *part.constraints[i], part.answers[i]));
  }
  return written;
}

WrittenValue LikeliestOf(const SecondLook& look) {
  WrittenValue best;
  int tokens = 0;
  for (size_t c = 0; c < look.size(); ++c) {
    WrittenValue written = ReadSlot(look[c].slot, *look[c].constraint, look[c].answer);
    tokens += written.tokens;
    const bool better =
        written.truncated != best.truncated ? best.truncated : written.logprob > best.logprob;
    if (c == 0 || better) best = std::move(written);
  }
  best.tokens = tokens;
  return best;
}

void SecondLookFinder::Find(ExtractPart& part) const {
  if (!stack_.stacked()) FindItems(part);
  for (size_t document = 0; document < stack_.records.size(); ++document) {
    FindDoubts(part, document);
  }
}

// The objects that the first stage named, each with a template for its other attributes.
void SecondLookFinder::FindItems(ExtractPart& part) const {
  const std::vector<WrittenValue> written = WrittenValues(stack_, part, 0);
  for (size_t n = 0; n < stack_.leaves(); ++n) {
    const Leaf& leaf = stack_.plan().leaves[n];
    const std::vector<ExtractAttribute>& parts = leaf.attribute->parts;
    if (leaf.attribute->kind != ValueKind::kObjects || parts.size() < 2) continue;
    if (!written[n].json.is_array()) continue;
    size_t number = 0;
    for (const auto& value : written[n].json) {
      if (number == static_cast<size_t>(leaf.attribute->max_items)) break;
      ListedObject& item = part.items.emplace_back();
      item.leaf = n;
      item.number = number++;
      SlotRequest request = stack_.settings.slots;
      for (size_t i = 1; i < parts.size(); ++i) {
        item.slots.push_back(MakeSlot(
            parts[i], i == 1 ? PieceOfItem(leaf, DumpJson(value)) : NextPieceOfItem(parts[i]),
            request));
        item.constraints.push_back(
            constraints_.Of(item.slots.back(), part.prompt.documents.front()));
      }
      item.answers.resize(item.slots.size());
    }
  }
}

// What is asked where `written` was not enough; nothing where it was.
std::vector<ValueSlot> SecondLookFinder::SlotsOfDoubt(const ExtractPart& part, size_t slot,
                                                      const WrittenValue& written) const {
  const size_t document = slot / stack_.leaves(), leaf = slot % stack_.leaves();
  const ValueSlot& asked = stack_.plan().slots[slot];
  const ExtractAttribute& attribute = *asked.attribute;
  // Documents that write together are asked the same, so what they say counts together.
  const std::shared_ptr<CopySource>& together = stack_.reading.together;
  const std::string_view text =
      together ? std::string_view(together->text) : part.prompt.documents[document];
  const bool by_schema =
      attribute.kind == ValueKind::kSchema || attribute.kind == ValueKind::kObjects;
  if (written.truncated || by_schema) return {};
  const bool is_null = written.json.is_null();
  const double bias = stack_.records[document].card->null_bias.value_or(0.0);
  if (is_null && !IsDoubtfulNull(written.logprob, bias)) return {};
  if (attribute.kind == ValueKind::kEnum && attribute.allowed.size() <= kMostScored) {
    // A value with more than half of the probability is the likeliest.
    if (!is_null && written.logprob > std::log(0.5)) return {};
    return EachAlone(asked, AllowedBy(text, attribute));
  }
  if (is_null) return {WithoutNull(asked)};
  if (!IsConverted(attribute) || !asked.copies) return {};
  const Constraint* fits = stack_.plan().fits[leaf].get();
  if (!ConvertWritten(attribute, written.json, fits, HintsOf(text)).value.is_null()) return {};
  std::vector<std::string> mentions = MentionsOf(attribute, text, fits, kMostMentions);
  std::erase_if(mentions, [](const std::string& mention) {  // from one document into the next
    return mention.find(kBetweenDocuments) != std::string::npos;
  });
  if (mentions.empty()) return {};
  return {WithOnly(asked, mentions, attribute.nullable)};
}

void SecondLookFinder::FindDoubts(ExtractPart& part, size_t document) const {
  const std::vector<WrittenValue> written = WrittenValues(stack_, part, document);
  for (size_t n = 0; n < stack_.leaves(); ++n) {
    const size_t slot = document * stack_.leaves() + n;
    SecondLook look;
    for (ValueSlot& again : SlotsOfDoubt(part, slot, written[n])) {
      SlotCandidate candidate{std::move(again), nullptr, {}};
      try {
        candidate.constraint = constraints_.Of(candidate.slot, part.prompt.documents[document]);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::kInput) throw;
        continue;  // nothing to copy: the value stays null
      }
      look.push_back(std::move(candidate));
    }
    if (!look.empty()) part.looks.emplace(slot, std::move(look));
  }
}

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
  if (problem_) return ErrorRowOf(stack_.settings, record, *problem_);
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
