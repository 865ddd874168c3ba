// The values of a document → its row.
#include <fmt/format.h>

#include <cmath>

#include "base/json_row.h"
#include "tasks/extract_work.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Four digits are more than a log-probability means.
OrderedJson Rounded(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return nullptr;
  return std::round(*value * 1e4) / 1e4;
}

OrderedJson SpanJson(const TextSpan& span) { return OrderedJson::array({span.start, span.end}); }

}  // namespace

std::vector<ExtractedValue> ExtractWork::Values() const {
  const CategoryPlan& plan = *record_.plan;
  if (plan.whole) return ReadSequence(plan, answers_.front());
  std::vector<ExtractedValue> values;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    values.push_back(ReadValue(plan.category->attributes[i], plan.slots[i], answers_[i]));
  }
  return values;
}

std::vector<OutputRow> ExtractWork::Rows() {
  if (problem_) {
    OutputRow row;
    row.fields["id"] = record_.id;
    row.fields["error"] = {{"kind", ErrorKindName(problem_->kind)}, {"message", problem_->message}};
    row.error = true;
    row.identity = DumpJson(row.fields);
    return {row};
  }
  const std::vector<ExtractedValue> values = Values();
  OutputRow row = settings_.options.flat ? FlatRow(values) : NestedRow(values);
  int tokens = 0;
  for (const ExtractedValue& value : values) tokens += value.tokens;
  OrderedJson equal = {{"id", record_.id}};  // what makes two rows the same answer
  for (const ExtractedValue& value : values) equal["values"].push_back(value.value);
  row.identity = DumpJson(equal);
  row.fields["tokens"] = tokens;
  row.fields["prompt_tokens"] = prompt_tokens_;
  if (cut_bytes_ > 0) row.fields["cut_bytes"] = cut_bytes_;
  for (const auto& [name, value] : record_.carried) {
    if (!row.fields.contains(name)) row.fields[name] = value;
  }
  return {row};
}

OutputRow ExtractWork::NestedRow(const std::vector<ExtractedValue>& values) const {
  const ExtractCategory& category = *record_.plan->category;
  OutputRow row;
  row.fields["id"] = record_.id;
  if (!category.name.empty()) row.fields["category"] = category.name;
  OrderedJson written = OrderedJson::object(), confidence = written, spans = written;
  OrderedJson truncated = OrderedJson::array();
  for (size_t i = 0; i < values.size(); ++i) {
    const ExtractAttribute& attribute = category.attributes[i];
    const ExtractedValue& value = values[i];
    if (!value.value.is_null() || !attribute.leave_out_null) written[attribute.name] = value.value;
    confidence[attribute.name] = Rounded(value.confidence);
    if (const auto span = SpanOf(value, record_.text)) spans[attribute.name] = SpanJson(*span);
    if (value.truncated) truncated.push_back(attribute.name);
  }
  row.fields["values"] = std::move(written);
  row.fields["confidence"] = std::move(confidence);
  row.fields["spans"] = std::move(spans);
  if (!truncated.empty()) row.fields["truncated"] = std::move(truncated);
  return row;
}

// Lists and the like stand as JSON in their cell.
OutputRow ExtractWork::FlatRow(const std::vector<ExtractedValue>& values) const {
  const ExtractCategory& category = *record_.plan->category;
  OutputRow row;
  row.fields["id"] = record_.id;
  row.fields["category"] = category.name;
  OrderedJson confidence = OrderedJson::object();
  OrderedJson truncated = OrderedJson::array();
  for (size_t i = 0; i < values.size(); ++i) {
    const ExtractAttribute& attribute = category.attributes[i];
    row.fields[ColumnOf(attribute)] = values[i].value;
    confidence[attribute.name] = Rounded(values[i].confidence);
    if (values[i].truncated) truncated.push_back(attribute.name);
  }
  row.fields["confidence"] = confidence;
  row.fields["truncated"] = truncated;
  return row;
}

}  // namespace banyan
