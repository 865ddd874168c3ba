// Decides from the first answers what is asked in the second stage.
#include "tasks/extract/extract_second_look.h"

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

}  // namespace banyan
