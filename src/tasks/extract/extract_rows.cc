// The values of a document → its row.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/characters.h"
#include "base/json_row.h"
#include "tasks/extract/extract_convert.h"
#include "tasks/extract/extract_work.h"
#include "text/utf8.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Of a value that is written instead of a text without one. On documents for tuning, 2 of 2 above
// it were right and 3 of 20 below.
constexpr double kLeastSecondConfidence = 0.2;

// Four digits are more than a probability means.
OrderedJson RoundedConfidence(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e4) / 1e4;
}

OrderedJson PlaceJson(const std::optional<TextSpan>& span) {
  if (!span) return nullptr;
  return OrderedJson::array({span->start, span->end});
}

OrderedJson PlacesJson(const ExtractedValue& value) {
  if (value.attribute->kind != ValueKind::kList) {
    return value.places.empty() ? OrderedJson(nullptr) : PlaceJson(value.places.front());
  }
  OrderedJson places = OrderedJson::array();
  for (const std::optional<TextSpan>& place : value.places) places.push_back(PlaceJson(place));
  return places;
}

// What there is to say of values beside what they are, by name; only fields that say something.
OrderedJson RemarksOf(const std::vector<ExtractedValue>& values, double min_confidence) {
  OrderedJson remarks = OrderedJson::object();
  OrderedJson confidence = OrderedJson::object(), spans = confidence, units = confidence;
  OrderedJson raw = confidence, reasons = confidence;
  OrderedJson sources = confidence, agreeing = confidence, conflicts = confidence;
  OrderedJson truncated = OrderedJson::array();
  for (const ExtractedValue& value : values) {
    confidence[value.name] = RoundedConfidence(value.confidence);
    if (!value.value.is_null()) spans[value.name] = PlacesJson(value);
    if (!value.sources.empty() && !value.value.is_null()) {
      const bool list = value.attribute->kind == ValueKind::kList;
      sources[value.name] = list ? OrderedJson(value.sources) : value.sources.front();
    }
    if (!value.agreeing.empty()) agreeing[value.name] = value.agreeing;
    if (!value.conflicts.empty()) conflicts[value.name] = value.conflicts;
    if (!value.unit.empty() && !value.value.is_null()) units[value.name] = value.unit;
    if (!value.raw.is_null() && value.raw != value.value) raw[value.name] = value.raw;
    std::string reason = value.reason;
    if (value.dropped) {
      reason = fmt::format("confidence {:.4f} is below {}", value.confidence, min_confidence);
    }
    if (!reason.empty()) reasons[value.name] = reason;
    if (value.truncated) truncated.push_back(value.name);
  }
  remarks["confidence"] = std::move(confidence);
  remarks["spans"] = std::move(spans);
  if (!sources.empty()) remarks["sources"] = std::move(sources);
  if (!agreeing.empty()) remarks["agreeing"] = std::move(agreeing);
  if (!conflicts.empty()) remarks["conflicts"] = std::move(conflicts);
  if (!units.empty()) remarks["units"] = std::move(units);
  if (!raw.empty()) remarks["raw"] = std::move(raw);
  if (!reasons.empty()) remarks["reasons"] = std::move(reasons);
  if (!truncated.empty()) remarks["truncated"] = std::move(truncated);
  return remarks;
}

// The value at a leaf's path; null when an object on the way is.
OrderedJson AtPath(const OrderedJson& values, const std::vector<std::string>& path) {
  const OrderedJson* at = &values;
  for (const std::string& name : path) {
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &at->at(name);
  }
  return *at;
}

std::string MissingValue(const std::vector<ExtractedValue>& values) {
  for (const ExtractedValue& value : values) {
    if (value.attribute->nullable || !value.value.is_null()) continue;
    return fmt::format("attribute '{}' must have a value, and the document has none that fits{}",
                       value.name, value.reason.empty() ? "" : ": " + value.reason);
  }
  return "";
}

}  // namespace

std::vector<ExtractedValue> ExtractWork::ValuesOfPart(const Part& part, size_t document) const {
  const std::string_view text = part.documents[document];
  const DocumentHints hints = HintsOf(text);
  const std::int64_t shift =
      CountCharacters(std::string_view(records_[document].text).substr(0, part.begin));
  const auto make = [&](std::string name, const ExtractAttribute& attribute,
                        const WrittenValue& written, const Constraint* fits) {
    ExtractedValue value;
    value.name = std::move(name);
    value.attribute = &attribute;
    TypedValue typed = ConvertWritten(attribute, written.json, fits, hints);
    value.value = std::move(typed.value);
    value.unit = std::move(typed.unit);
    value.reason = std::move(typed.reason);
    if (attribute.kind == ValueKind::kEnum && !value.value.is_null() &&
        AllowedBy(text, attribute).empty()) {
      value.value = nullptr;
      value.reason = "the document denies every allowed value";
    }
    if (written.truncated && value.value.is_null()) value.reason = "cut off: see max_tokens";
    value.raw = written.json;
    value.confidence = settings_.Confidence(attribute, written, *records_[document].card);
    value.truncated = written.truncated;
    value.tokens = written.tokens;
    if (!written.json.is_null()) value.places = PlacesOf(written.json, text);
    if (!typed.kept.empty()) {  // an item's place is where it was written, whatever items are gone
      std::vector<std::optional<TextSpan>> kept;
      for (const size_t item : typed.kept) kept.push_back(value.places.at(item));
      value.places = std::move(kept);
    }
    for (std::optional<TextSpan>& place : value.places) {
      if (place) place = TextSpan{place->start + shift, place->end + shift};
    }
    value.experts = written.experts;
    if (!reading_.keep_unsure) value.DropBelow(settings_.options.min_confidence);
    return value;
  };
  std::vector<ExtractedValue> values;
  const std::vector<WrittenValue> written = Written(part, document);
  for (size_t n = 0; n < leaves(); ++n) {
    const Leaf& leaf = plan_.leaves[n];
    const bool objects = leaf.attribute->kind == ValueKind::kObjects;
    if (!objects || !written[n].json.is_array()) {
      values.push_back(make(leaf.name, *leaf.attribute, written[n], plan_.fits[n].get()));
      const auto look = part.looks.find(document * leaves() + n);
      if (look == part.looks.end()) continue;
      ExtractedValue found =
          make(leaf.name, *leaf.attribute, LikeliestOf(look->second), plan_.fits[n].get());
      found.tokens += values.back().tokens;
      values.back().tokens = found.tokens;
      // After a text that has no value, another one is a guess unless the model is fairly sure.
      const bool guess = !values.back().raw.is_null() && values.back().value.is_null() &&
                         found.confidence < kLeastSecondConfidence;
      if ((!found.value.is_null() || found.dropped) && !guess) values.back() = std::move(found);
      continue;
    }
    const std::vector<ExtractAttribute>& parts = leaf.attribute->parts;
    for (size_t i = 0; i < written[n].json.size(); ++i) {
      if (i == static_cast<size_t>(leaf.attribute->max_items)) break;
      WrittenValue first = written[n];  // one answer names all objects
      first.json = written[n].json[i];
      first.tokens = i == 0 ? written[n].tokens : 0;
      values.push_back(make(fmt::format("{}[{}].{}", leaf.name, i, parts[0].name), parts[0], first,
                            plan_.item_fits[n][0].get()));
    }
    for (const ItemWork& item : part.items) {
      if (item.leaf != n) continue;
      for (size_t i = 0; i < item.slots.size(); ++i) {
        const ExtractAttribute& attribute = *item.slots[i].attribute;
        values.push_back(make(fmt::format("{}[{}].{}", leaf.name, item.number, attribute.name),
                              attribute,
                              ReadSlot(item.slots[i], *item.constraints[i], item.answers[i]),
                              plan_.item_fits[n][i + 1].get()));
      }
    }
  }
  return values;
}

std::vector<ExtractedValue> ExtractWork::Values(size_t document) const {
  std::vector<std::vector<ExtractedValue>> parts;
  for (const Part& part : parts_) parts.push_back(ValuesOfPart(part, document));
  if (!parts.empty()) return JoinParts(std::move(parts));
  std::vector<ExtractedValue> values;  // a document without words was not asked about
  for (const Leaf& leaf : plan_.leaves) {
    ExtractedValue& value = values.emplace_back();
    value.name = leaf.name;
    value.attribute = leaf.attribute;
    value.confidence = 1.0;
    value.reason = "the document has no text";
  }
  return values;
}

OutputRow ExtractWork::Row(size_t document) {
  return problem_ ? ErrorRowOf(records_[document], *problem_) : ValueRow(document);
}

OutputRow ExtractWork::ValueRow(size_t document) const {
  RowFacts facts;
  facts.prompt_tokens = prompt_tokens();
  facts.parts = parts_.size();
  if (settings_.options.stack > 1) facts.stacked = records_.size();
  facts.cut_bytes = cut_bytes_[document];
  return RowOfValues(settings_, records_[document], Values(document), facts);
}

std::int64_t ExtractWork::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (const Part& part : parts_) tokens += static_cast<std::int64_t>(part.prompt.tokens.size());
  return tokens;
}

OutputRow ErrorRowOf(const ExtractRecord& record, const RowProblem& problem) {
  OutputRow row;
  row.fields["id"] = record.id;
  row.fields["error"] = {{"kind", ErrorKindName(problem.kind)}, {"message", problem.message}};
  row.error = true;
  row.identity = DumpJson(row.fields);
  return row;
}

OutputRow RowOfValues(const ExtractSettings& settings, const ExtractRecord& record,
                      const std::vector<ExtractedValue>& values, const RowFacts& facts) {
  const ExtractCategory& category = *record.plan->category;
  const std::string missing = MissingValue(values);
  OutputRow row;
  if (!missing.empty()) row = ErrorRowOf(record, {ErrorKind::kInput, missing});
  row.fields["id"] = record.id;
  if (!category.name.empty()) row.fields["category"] = category.name;
  OrderedJson assembled = AssembleValues(category, values);
  const OrderedJson equal = {{"id", record.id}, {"values", assembled}};
  if (!row.error) row.identity = DumpJson(equal);  // what makes two rows the same answer
  if (settings.options.flat) {
    for (const Leaf& leaf : record.plan->leaves) {
      row.fields[ColumnOf(leaf.name)] = AtPath(assembled, leaf.path);
    }
  } else {
    row.fields["values"] = std::move(assembled);
  }
  const OrderedJson remarks = RemarksOf(values, settings.options.min_confidence);
  for (const auto& [name, remark] : remarks.items()) {
    if (settings.options.flat && name == "spans") continue;
    row.fields[name] = remark;
  }
  int tokens = 0;
  for (const ExtractedValue& value : values) tokens += value.tokens;
  row.fields["tokens"] = tokens;
  row.fields["prompt_tokens"] = facts.prompt_tokens;
  if (facts.parts > 1) row.fields["parts"] = facts.parts;
  if (facts.stacked > 0) row.fields["stacked"] = facts.stacked;
  if (facts.cut_bytes > 0) row.fields["cut_bytes"] = facts.cut_bytes;
  for (const auto& [name, value] : record.carried) {
    if (!row.fields.contains(name)) row.fields[name] = value;
  }
  return row;
}

}  // namespace banyan
