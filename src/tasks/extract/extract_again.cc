// Values that are asked for once more, after the first answers are known:
// - a null of which the model was not sure enough (the card's null_bias), without the choice of
//   null;
// - an enum's value that is less likely than not: every allowed value by its whole probability,
//   since the likeliest first token need not begin the likeliest value;
// - a text that no rule turns into the attribute's number or date: the model chooses among the
//   document's texts that have one, and null.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tasks/extract/extract_convert.h"
#include "tasks/extract/extract_work.h"

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

// What is asked where `written` was not enough; nothing where it was.
std::vector<ValueSlot> ExtractWork::SlotsOfDoubt(const Part& part, size_t slot,
                                                 const WrittenValue& written) const {
  const size_t document = slot / leaves(), leaf = slot % leaves();
  const ValueSlot& asked = plan_.slots[slot];
  const ExtractAttribute& attribute = *asked.attribute;
  // Documents that write together are asked the same, so what they say counts together.
  const std::string_view text =
      reading_.together ? std::string_view(reading_.together->text) : part.documents[document];
  const bool by_schema =
      attribute.kind == ValueKind::kSchema || attribute.kind == ValueKind::kObjects;
  if (written.truncated || by_schema) return {};
  const bool is_null = written.json.is_null();
  const double bias = records_[document].card->null_bias.value_or(0.0);
  if (is_null && !IsDoubtfulNull(written.logprob, bias)) return {};
  if (attribute.kind == ValueKind::kEnum && attribute.allowed.size() <= kMostScored) {
    // A value with more than half of the probability is the likeliest.
    if (!is_null && written.logprob > std::log(0.5)) return {};
    return EachAlone(asked, AllowedBy(text, attribute));
  }
  if (is_null) return {WithoutNull(asked)};
  if (!IsConverted(attribute) || !asked.copies) return {};
  const Constraint* fits = plan_.fits[leaf].get();
  if (!ConvertWritten(attribute, written.json, fits, HintsOf(text)).value.is_null()) return {};
  std::vector<std::string> mentions = MentionsOf(attribute, text, fits, kMostMentions);
  std::erase_if(mentions, [](const std::string& mention) {  // from one document into the next
    return mention.find(kBetweenDocuments) != std::string::npos;
  });
  if (mentions.empty()) return {};
  return {WithOnly(asked, mentions, attribute.nullable)};
}

void ExtractWork::FindDoubts(Part& part) const {
  for (size_t document = 0; document < records_.size(); ++document) {
    const std::vector<WrittenValue> written = Written(part, document);
    for (size_t n = 0; n < leaves(); ++n) {
      const size_t slot = document * leaves() + n;
      SecondLook look;
      for (ValueSlot& again : SlotsOfDoubt(part, slot, written[n])) {
        Candidate candidate{std::move(again), nullptr, {}};
        try {
          candidate.constraint = ConstraintOf(candidate.slot, part.documents[document], part);
        } catch (const Error& e) {
          if (e.kind() != ErrorKind::kInput) throw;
          continue;  // nothing to copy: null it is
        }
        look.push_back(std::move(candidate));
      }
      if (!look.empty()) part.looks.emplace(slot, std::move(look));
    }
  }
}

// The pieces of a template, with answers only where a value is looked for again: values do not see
// one another here.
PromptSegment ExtractWork::LookTemplate(size_t part, SlotGroup group) {
  auto position = static_cast<std::int64_t>(parts_[part].prompt.tokens.size());
  PromptSegment first;
  for (size_t i = group.begin; i < group.end; ++i) {
    PromptSegment& piece = AppendPiece(first, i - group.begin);
    piece.tokens = plan_.slots[i].tokens;
    const auto look = parts_[part].looks.find(i);
    for (size_t c = 0; look != parts_[part].looks.end() && c < look->second.size(); ++c) {
      const Candidate& candidate = look->second[c];
      piece.answers.push_back(RequestFor(candidate.slot, {part, {}, i, c}, candidate.constraint));
    }
    if (!together() && !settings_.options.gaps) continue;
    piece.first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece.tokens.size()) + plan_.slots[i].max_tokens;
  }
  return first;
}

// The first of the likeliest, with the tokens of all.
WrittenValue ExtractWork::LikeliestOf(const SecondLook& look) {
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

}  // namespace banyan
