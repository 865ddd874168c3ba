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

OutputRow NestedRow(const ExtractRecord& record, const std::vector<ExtractedValue>& values) {
  const ExtractCategory& category = *record.plan->category;
  OutputRow row;
  row.fields["id"] = record.id;
  if (!category.name.empty()) row.fields["category"] = category.name;
  OrderedJson written = OrderedJson::object(), confidence = written, spans = written;
  OrderedJson truncated = OrderedJson::array();
  for (size_t i = 0; i < values.size(); ++i) {
    const ExtractAttribute& attribute = category.attributes[i];
    const ExtractedValue& value = values[i];
    if (!value.value.is_null() || !attribute.leave_out_null) written[attribute.name] = value.value;
    confidence[attribute.name] = Rounded(value.confidence);
    if (const auto span = SpanOf(value, record.text)) spans[attribute.name] = SpanJson(*span);
    if (value.truncated) truncated.push_back(attribute.name);
  }
  row.fields["values"] = std::move(written);
  row.fields["confidence"] = std::move(confidence);
  row.fields["spans"] = std::move(spans);
  if (!truncated.empty()) row.fields["truncated"] = std::move(truncated);
  return row;
}

// Lists and the like stand as JSON in their cell.
OutputRow FlatRow(const ExtractRecord& record, const std::vector<ExtractedValue>& values) {
  const ExtractCategory& category = *record.plan->category;
  OutputRow row;
  row.fields["id"] = record.id;
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

}  // namespace

std::vector<ExtractedValue> ExtractWork::Values(size_t document) const {
  if (plan_.whole) return ReadSequence(plan_, answers_.front());
  const size_t attributes = plan_.category->attributes.size();
  std::vector<ExtractedValue> values;
  for (size_t i = 0; i < attributes; ++i) {
    const size_t slot = document * attributes + i;
    values.push_back(ReadValue(plan_.category->attributes[i], plan_.slots[slot], answers_[slot]));
  }
  return values;
}

std::vector<OutputRow> ExtractWork::Rows() {
  std::vector<OutputRow> rows;
  for (size_t i = 0; i < records_.size(); ++i) {
    rows.push_back(problem_ ? ErrorRowOf(records_[i]) : RowOf(i));
  }
  return rows;
}

OutputRow ExtractWork::ErrorRowOf(const ExtractRecord& record) const {
  OutputRow row;
  row.fields["id"] = record.id;
  row.fields["error"] = {{"kind", ErrorKindName(problem_->kind)}, {"message", problem_->message}};
  row.error = true;
  row.identity = DumpJson(row.fields);
  return row;
}

OutputRow ExtractWork::RowOf(size_t document) const {
  const ExtractRecord& record = records_[document];
  const std::vector<ExtractedValue> values = Values(document);
  OutputRow row = settings_.options.flat ? FlatRow(record, values) : NestedRow(record, values);
  int tokens = 0;
  for (const ExtractedValue& value : values) tokens += value.tokens;
  OrderedJson equal = {{"id", record.id}};  // what makes two rows the same answer
  for (const ExtractedValue& value : values) equal["values"].push_back(value.value);
  row.identity = DumpJson(equal);
  row.fields["tokens"] = tokens;
  row.fields["prompt_tokens"] = prompt_tokens_;
  if (settings_.options.stack > 1) row.fields["stacked"] = records_.size();
  if (cut_bytes_[document] > 0) row.fields["cut_bytes"] = cut_bytes_[document];
  for (const auto& [name, value] : record.carried) {
    if (!row.fields.contains(name)) row.fields[name] = value;
  }
  return row;
}

}  // namespace banyan
