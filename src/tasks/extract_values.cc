#include "tasks/extract_values.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::optional<double> MeanIfAny(const std::vector<float>& values) {
  if (values.empty()) return std::nullopt;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// A string that was cut off, without an escape or a character that is not whole.
std::optional<OrderedJson> CloseText(std::string_view written) {
  constexpr size_t kMostCut = 12;  // a pair of \u escapes
  for (size_t cut = 0; cut <= kMostCut && written.size() > cut + 1; ++cut) {
    std::string closed(written.substr(0, written.size() - cut));
    closed += '"';
    const OrderedJson value = OrderedJson::parse(closed, nullptr, /*allow_exceptions=*/false);
    if (value.is_string() && !value.get_ref<const std::string&>().empty()) return value;
  }
  return std::nullopt;
}

// What becomes of a value of which only `written` is there. `completed`: the shortest that fits.
OrderedJson CutValue(const ExtractAttribute& attribute, std::string_view written,
                     std::string_view completed) {
  if (attribute.is_text && written.starts_with('"')) {
    if (std::optional<OrderedJson> text = CloseText(written)) return *text;
  }
  if (attribute.nullable) return nullptr;
  return OrderedJson::parse(completed);
}

// Some models write the word for nothing in quotes.
OrderedJson WithoutNullText(OrderedJson value, const ExtractAttribute& attribute) {
  if (attribute.is_text && attribute.nullable && value == "null") return nullptr;
  return value;
}

// Of the tokens that hold bytes [begin, end).
std::vector<float> LogprobsWithin(const Constraint& constraint, const Answer& answer, size_t begin,
                                  size_t end) {
  std::vector<float> logprobs;
  size_t at = 0;
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    const size_t next = at + constraint.BytesOf({&answer.tokens[i], 1}).size();
    if (next > begin && at < end) logprobs.push_back(answer.logprobs[i]);
    at = next;
  }
  return logprobs;
}

}  // namespace

size_t JsonValueEnd(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') ++i;
      }
      if (depth == 0) return std::min(i + 1, text.size());
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return i;
      if (--depth == 0) return i + 1;
    } else if (depth == 0 && (c == ',' || c == '\n' || c == ' ')) {
      return i;
    }
  }
  return text.size();
}

ExtractedValue ReadValue(const ExtractAttribute& attribute, const ValueSlot& slot,
                         const Answer& answer) {
  ExtractedValue result;
  const std::string bytes = slot.constraint->BytesOf(answer.tokens);
  const size_t begin = std::min(slot.rest.size() + 1, bytes.size());
  result.truncated = !slot.constraint->Matches(bytes);
  result.written = bytes.substr(begin, JsonValueEnd(bytes, begin) - begin);
  result.confidence = MeanIfAny(answer.logprobs);
  result.tokens = static_cast<int>(answer.tokens.size());
  if (!result.truncated) {
    result.value = WithoutNullText(OrderedJson::parse(result.written), attribute);
    return result;
  }
  const std::optional<std::string> more = slot.constraint->Completion(bytes);
  BANYAN_CHECK(more.has_value());
  const std::string completed = bytes + *more;
  const size_t value_begin = slot.rest.size() + 1;
  const size_t value_end = JsonValueEnd(completed, value_begin);
  result.value = CutValue(attribute, result.written,
                          std::string_view(completed).substr(value_begin, value_end - value_begin));
  return result;
}

std::vector<ExtractedValue> ReadSequence(const CategoryPlan& plan, const Answer& answer) {
  const std::string bytes = plan.whole->BytesOf(answer.tokens);
  const std::optional<std::string> more = plan.whole->Completion(bytes);
  BANYAN_CHECK(more.has_value());
  const std::string text = bytes + *more;
  std::vector<ExtractedValue> values;
  size_t at = 0;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const ExtractAttribute& attribute = plan.category->attributes[i];
    const size_t begin = at + (i == 0 ? plan.slots[i].rest : plan.slots[i].piece).size() + 1;
    at = JsonValueEnd(text, begin);
    const std::string_view whole = std::string_view(text).substr(begin, at - begin);
    ExtractedValue& result = values.emplace_back();
    // A number is whole when something stands after it.
    result.truncated = attribute.ends_bare ? at >= bytes.size() : at > bytes.size();
    result.written = bytes.substr(std::min(begin, bytes.size()), at - begin);
    const std::vector<float> logprobs = LogprobsWithin(*plan.whole, answer, begin, at);
    result.confidence = MeanIfAny(logprobs);
    result.tokens = static_cast<int>(logprobs.size());
    result.value = result.truncated ? CutValue(attribute, result.written, whole)
                                    : WithoutNullText(OrderedJson::parse(whole), attribute);
  }
  return values;
}

std::optional<TextSpan> SpanOf(const ExtractedValue& value, std::string_view document) {
  if (value.value.is_string()) {
    const std::string& text = value.value.get_ref<const std::string&>();
    const std::optional<TextSpan> span = FindSpan(document, text);
    return span ? span : FindSpan(document, text, LetterCase::kAny);
  }
  if (value.value.is_number() && !value.truncated) return FindNumber(document, value.written);
  return std::nullopt;
}

}  // namespace banyan
