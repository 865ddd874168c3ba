// What was written becomes typed values with places; values become the fields of a row.
#include "tasks/extract/extract_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/characters.h"
#include "base/json.h"
#include "tasks/extract/extract_convert.h"
#include "tasks/extract/extract_evidence.h"
#include "tasks/extract/extract_work.h"
#include "text/unicode.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The least confidence of a second value after a text that could not be converted. On documents for
// tuning, 2 of 2 above it were right and 3 of 20 below.
constexpr double kLeastSecondConfidence = 0.2;

// Without the input's other fields.
OutputRow ErrorAlone(const ExtractRecord& record, const RowProblem& problem) {
  OutputRow row;
  row.fields["id"] = record.id;
  row.fields["error"] = {{"kind", ErrorKindName(problem.kind)}, {"message", problem.message}};
  row.error = true;
  row.identity = DumpJson(row.fields);
  return row;
}

// A probability does not mean more than four digits.
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

// The row's fields about values, by name; only those that are not empty.
OrderedJson RemarksOf(const std::vector<ExtractedValue>& values, const ExtractSettings& settings,
                      const ModelCard& card) {
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
      reason = fmt::format("confidence {:.4f} is below {}", value.confidence,
                           settings.LeastConfidence(*value.attribute, card));
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

// Makes the values of one document in one part out of what was written.
class ValueMaker {
 public:
  ValueMaker(const ExtractStack& stack, const ExtractPart& part, size_t document)
      : stack_(stack),
        record_(stack.records[document]),
        text_(part.prompt.documents[document]),
        hints_(HintsOf(text_)),
        shift_(CountCharacters(std::string_view(record_.text).substr(0, part.prompt.begin))) {}

  // `fits`: what the value's JSON must match; null: anything.
  ExtractedValue Make(std::string name, const ExtractAttribute& attribute,
                      const WrittenValue& written, const Constraint* fits) const {
    ExtractedValue value;
    value.name = std::move(name);
    value.attribute = &attribute;
    TypedValue typed = ConvertWritten(attribute, written.json, fits, hints_);
    value.value = std::move(typed.value);
    value.unit = std::move(typed.unit);
    value.reason = std::move(typed.reason);
    if (attribute.kind == ValueKind::kEnum && !value.value.is_null() &&
        AllowedBy(text_, attribute).empty()) {
      value.value = nullptr;
      value.reason = "the document denies every allowed value";
    }
    if (!value.value.is_null() && attribute.nullable) {
      std::string against = EvidenceAgainst(attribute, value.value, written.json, text_);
      if (!against.empty()) {
        value.value = nullptr;
        value.unit.clear();
        value.reason = std::move(against);
      }
    }
    if (written.truncated && value.value.is_null()) value.reason = "cut off: see max_tokens";
    value.raw = written.json;
    value.confidence = stack_.settings.Confidence(attribute, written, *record_.card);
    value.truncated = written.truncated;
    value.tokens = written.tokens;
    if (!written.json.is_null()) value.places = PlacesOf(written.json, text_);
    if (!typed.kept.empty()) {  // an item's place is where it was written, whatever items are gone
      std::vector<std::optional<TextSpan>> kept;
      for (const size_t item : typed.kept) kept.push_back(value.places.at(item));
      value.places = std::move(kept);
    }
    for (std::optional<TextSpan>& place : value.places) {
      if (place) place = TextSpan{place->start + shift_, place->end + shift_};
    }
    value.experts = written.experts;
    if (!stack_.reading.keep_unsure) {
      value.DropBelow(stack_.settings.LeastConfidence(attribute, *record_.card));
    }
    return value;
  }

 private:
  const ExtractStack& stack_;
  const ExtractRecord& record_;
  std::string_view text_;
  DocumentHints hints_;
  std::int64_t shift_;  // characters of the record's text before the part
};

// The value of the second look where it counts, else that of the first; with the tokens of both.
ExtractedValue BetterOf(ExtractedValue first, ExtractedValue second) {
  second.tokens += first.tokens;
  first.tokens = second.tokens;
  // After a text that has no value, another one is a guess unless the model is fairly sure.
  const bool guess =
      !first.raw.is_null() && first.value.is_null() && second.confidence < kLeastSecondConfidence;
  return (!second.value.is_null() || second.dropped) && !guess ? second : first;
}

}  // namespace

std::vector<ExtractedValue> ValuesOfPart(const ExtractStack& stack, const ExtractPart& part,
                                         size_t document) {
  const CategoryPlan& plan = stack.plan();
  const ValueMaker maker(stack, part, document);
  std::vector<ExtractedValue> values;
  const std::vector<WrittenValue> written = WrittenValues(stack, part, document);
  for (size_t n = 0; n < stack.leaves(); ++n) {
    const Leaf& leaf = plan.leaves[n];
    const bool objects = leaf.attribute->kind == ValueKind::kObjects;
    if (!objects || !written[n].json.is_array()) {
      const Constraint* fits = plan.fits[n].get();
      ExtractedValue value = maker.Make(leaf.name, *leaf.attribute, written[n], fits);
      if (const auto look = part.looks.find(document * stack.leaves() + n);
          look != part.looks.end()) {
        value = BetterOf(std::move(value),
                         maker.Make(leaf.name, *leaf.attribute, LikeliestOf(look->second), fits));
      }
      values.push_back(std::move(value));
      continue;
    }
    const std::vector<ExtractAttribute>& parts = leaf.attribute->parts;
    for (size_t i = 0; i < written[n].json.size(); ++i) {
      if (i == static_cast<size_t>(leaf.attribute->max_items)) break;
      WrittenValue first = written[n];  // one answer names all objects
      first.json = written[n].json[i];
      first.tokens = i == 0 ? written[n].tokens : 0;
      values.push_back(maker.Make(fmt::format("{}[{}].{}", leaf.name, i, parts[0].name), parts[0],
                                  first, plan.item_fits[n][0].get()));
    }
    for (const ListedObject& item : part.items) {
      if (item.leaf != n) continue;
      for (size_t i = 0; i < item.slots.size(); ++i) {
        const ExtractAttribute& attribute = *item.slots[i].attribute;
        values.push_back(
            maker.Make(fmt::format("{}[{}].{}", leaf.name, item.number, attribute.name), attribute,
                       ReadSlot(item.slots[i], *item.constraints[i], item.answers[i]),
                       plan.item_fits[n][i + 1].get()));
      }
    }
  }
  return values;
}

std::vector<ExtractedValue> ValuesWithoutText(const CategoryPlan& plan) {
  std::vector<ExtractedValue> values;
  for (const Leaf& leaf : plan.leaves) {
    ExtractedValue& value = values.emplace_back();
    value.name = leaf.name;
    value.attribute = leaf.attribute;
    value.confidence = 1.0;
    value.reason = "the document has no text";
  }
  return values;
}

OutputRow ErrorRowOf(const ExtractSettings& settings, const ExtractRecord& record,
                     const RowProblem& problem) {
  OutputRow row = ErrorAlone(record, problem);
  settings.names.Add(record.carried, nullptr, row.fields);
  return row;
}

OutputRow RowOfValues(const ExtractSettings& settings, const ExtractRecord& record,
                      const std::vector<ExtractedValue>& values, const RowFacts& facts) {
  const ExtractCategory& category = *record.plan->category;
  const std::string missing = MissingValue(values);
  OutputRow row;
  if (!missing.empty()) row = ErrorAlone(record, {ErrorKind::kInput, missing});
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
  const OrderedJson remarks = RemarksOf(values, settings, *record.card);
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
  settings.names.Add(record.carried, nullptr, row.fields);
  return row;
}

}  // namespace banyan
