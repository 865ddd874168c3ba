// JSON out of answers, truncated ones included; parts joined; values nested by category.
#include "tasks/extract/extract_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>

#include "base/error.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;
using ByName = std::map<std::string_view, const ExtractedValue*>;

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

// A list that was cut off, with the items that are whole.
std::optional<OrderedJson> CloseList(std::string_view written) {
  size_t whole = 0;  // where the last whole item ends
  for (size_t at = 1; at < written.size();) {
    const size_t end = JsonValueEnd(written, at);
    if (end >= written.size()) break;  // a comma or a bracket follows a whole item
    whole = end;
    at = written.find_first_not_of(", ", end);
    if (at == std::string_view::npos) break;
  }
  if (whole == 0) return std::nullopt;
  const OrderedJson list = OrderedJson::parse(std::string(written.substr(0, whole)) + "]", nullptr,
                                              /*allow_exceptions=*/false);
  return list.is_array() ? std::optional(list) : std::nullopt;
}

// A value that was cut off after `written`. `completed`: its shortest completion.
OrderedJson CutValue(const ExtractAttribute& attribute, std::string_view written,
                     std::string_view completed) {
  const bool list = attribute.kind == ValueKind::kList || attribute.kind == ValueKind::kObjects;
  if (attribute.kind == ValueKind::kText && written.starts_with('"')) {
    if (std::optional<OrderedJson> text = CloseText(written)) return *text;
  } else if (list && written.starts_with('[')) {
    if (std::optional<OrderedJson> items = CloseList(written)) return *items;
  }
  // The shortest completion serves for a span, an enum or a boolean; a number would change.
  const bool invents = list || attribute.kind == ValueKind::kNumber ||
                       attribute.kind == ValueKind::kInteger || attribute.kind == ValueKind::kDate;
  if (attribute.nullable || invents) return nullptr;
  return OrderedJson::parse(completed);
}

// Some models write null in quotes.
OrderedJson WithoutNullText(OrderedJson value, const ExtractAttribute& attribute) {
  const bool is_null = attribute.nullable && attribute.kind != ValueKind::kSchema &&
                       attribute.kind != ValueKind::kEnum && value == "null";
  return is_null ? OrderedJson(nullptr) : value;
}

OrderedJson ParseWhole(std::string_view written, const ExtractAttribute& attribute) {
  return WithoutNullText(OrderedJson::parse(written), attribute);
}

bool IsBetter(const ExtractedValue& a, const ExtractedValue& b) {
  if (a.value.is_null() != b.value.is_null()) return b.value.is_null();
  if (!a.value.is_null() && a.grounded() != b.grounded()) return a.grounded();
  // Of parts without a value, the least sure says how sure the document is.
  return a.value.is_null() ? a.confidence < b.confidence : a.confidence > b.confidence;
}

// Appends the items that are new.
void Unite(ExtractedValue& all, const ExtractedValue& more) {
  if (more.value.is_null()) return;
  if (all.value.is_null()) {
    all = more;
    return;
  }
  if (!all.value.is_array() || !more.value.is_array()) return;
  for (size_t i = 0; i < more.value.size(); ++i) {
    if (std::ranges::find(all.value, more.value[i]) != all.value.end()) continue;
    if (all.value.size() >= static_cast<size_t>(all.attribute->max_items)) return;
    all.value.push_back(more.value[i]);
    if (i < more.places.size()) all.places.push_back(more.places[i]);
  }
  all.confidence = std::min(all.confidence, more.confidence);
}

// "items[3].price" → the list's name, the number and the rest; nothing for other names.
struct ItemName {
  std::string list, rest;
  size_t number = 0;
};
std::optional<ItemName> ReadItemName(const ExtractedValue& value) {
  const size_t open = value.name.rfind('['), close = value.name.rfind("].");
  const bool item = open != std::string::npos && close != std::string::npos && open < close &&
                    value.attribute->name == value.name.substr(close + 2);
  if (!item) return std::nullopt;
  return ItemName{value.name.substr(0, open), value.name.substr(close + 2),
                  static_cast<size_t>(std::stoul(value.name.substr(open + 1, close - open - 1)))};
}

OrderedJson ObjectOf(const std::vector<ExtractAttribute>& attributes, const std::string& prefix,
                     const ByName& values, bool& has_value);

OrderedJson ItemsOf(const ExtractAttribute& attribute, const std::string& name,
                    const ByName& values) {
  OrderedJson items = OrderedJson::array();
  for (size_t n = 0; values.contains(fmt::format("{}[{}].{}", name, n, attribute.parts[0].name));
       ++n) {
    bool has_value = false;
    OrderedJson item =
        ObjectOf(attribute.parts, fmt::format("{}[{}].", name, n), values, has_value);
    if (has_value) items.push_back(std::move(item));
  }
  if (items.empty() && attribute.nullable) return nullptr;
  return items;
}

OrderedJson ObjectOf(const std::vector<ExtractAttribute>& attributes, const std::string& prefix,
                     const ByName& values, bool& has_value) {
  OrderedJson object = OrderedJson::object();
  for (const ExtractAttribute& attribute : attributes) {
    const std::string name = prefix + attribute.name;
    OrderedJson value;
    if (attribute.kind == ValueKind::kObject) {
      bool inner = false;
      value = ObjectOf(attribute.parts, name + ".", values, inner);
      if (!inner && attribute.nullable) value = nullptr;
    } else if (attribute.kind == ValueKind::kObjects) {
      value = ItemsOf(attribute, name, values);
    } else if (const auto found = values.find(name); found != values.end()) {
      value = found->second->value;
    }
    has_value = has_value || !(value.is_null() || (value.is_structured() && value.empty()));
    if (!value.is_null() || !attribute.leave_out_null) object[attribute.name] = std::move(value);
  }
  return object;
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

WrittenValue ReadSlot(const ValueSlot& slot, const Constraint& constraint, const Answer& answer) {
  const ExtractAttribute& attribute = *slot.attribute;
  WrittenValue result;
  const std::string bytes = constraint.BytesOf(answer.tokens);
  const size_t begin = std::min(slot.rest.size() + 1, bytes.size());
  const std::string_view written =
      std::string_view(bytes).substr(begin, JsonValueEnd(bytes, begin) - begin);
  result.truncated = !constraint.Matches(bytes);
  result.tokens = static_cast<int>(answer.tokens.size());
  result.logprob = std::accumulate(answer.logprobs.begin(), answer.logprobs.end(), 0.0);
  result.experts = answer.experts;
  if (!result.truncated) {
    result.json = ParseWhole(written, attribute);
    return result;
  }
  const std::optional<std::string> more = constraint.Completion(bytes);
  BANYAN_CHECK(more.has_value());
  const std::string completed = bytes + *more;
  const size_t value_begin = slot.rest.size() + 1;
  const size_t value_end = JsonValueEnd(completed, value_begin);
  result.json = CutValue(attribute, written,
                         std::string_view(completed).substr(value_begin, value_end - value_begin));
  return result;
}

std::vector<WrittenValue> ReadSequence(std::span<const ValueSlot> slots,
                                       const Constraint& constraint, const Answer& answer) {
  const std::string bytes = constraint.BytesOf(answer.tokens);
  const std::optional<std::string> more = constraint.Completion(bytes);
  BANYAN_CHECK(more.has_value());
  const std::string text = bytes + *more;
  std::vector<size_t> token_ends;
  for (const TokenId token : answer.tokens) {
    token_ends.push_back((token_ends.empty() ? 0 : token_ends.back()) +
                         constraint.BytesOf({&token, 1}).size());
  }
  std::vector<WrittenValue> values;
  size_t at = 0, token = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const ExtractAttribute& attribute = *slots[i].attribute;
    const size_t begin = at + (i == 0 ? slots[i].rest : slots[i].piece).size() + 1;
    at = JsonValueEnd(text, begin);
    const std::string_view whole = std::string_view(text).substr(begin, at - begin);
    WrittenValue& result = values.emplace_back();
    // A number is whole when something stands after it.
    const bool bare = attribute.kind == ValueKind::kSchema;
    result.truncated = bare ? at >= bytes.size() : at > bytes.size();
    while (token < token_ends.size() && token_ends[token] <= begin) ++token;
    for (size_t t = token; t < token_ends.size(); ++t) {
      if (t > 0 && token_ends[t - 1] >= at) break;
      result.logprob += answer.logprobs[t];
      ++result.tokens;
    }
    const size_t there = std::min(begin, bytes.size());
    result.json =
        result.truncated
            ? CutValue(attribute, std::string_view(bytes).substr(there, at - begin), whole)
            : ParseWhole(whole, attribute);
  }
  return values;
}

bool ExtractedValue::grounded() const {
  return !places.empty() &&
         std::ranges::all_of(places, [](const auto& place) { return place.has_value(); });
}

void ExtractedValue::DropBelow(double min_confidence) {
  if (value.is_null() || confidence >= min_confidence) return;
  dropped = true;
  value = nullptr;
}

std::vector<ExtractedValue> JoinParts(std::vector<std::vector<ExtractedValue>> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  std::vector<ExtractedValue> joined;
  std::map<std::string, size_t> place;         // name → place in joined
  std::map<std::string, size_t> items_before;  // list → objects of the parts before
  for (std::vector<ExtractedValue>& part : parts) {
    std::map<std::string, size_t> items_here;
    for (ExtractedValue& value : part) {
      if (const auto item = ReadItemName(value)) {
        size_t& here = items_here[item->list];
        here = std::max(here, item->number + 1);
        value.name = fmt::format("{}[{}].{}", item->list, items_before[item->list] + item->number,
                                 item->rest);
        joined.push_back(std::move(value));
        continue;
      }
      const auto [found, is_new] = place.emplace(value.name, joined.size());
      if (is_new) {
        joined.push_back(std::move(value));
      } else if (value.attribute->kind == ValueKind::kList ||
                 value.attribute->kind == ValueKind::kObjects) {
        Unite(joined[found->second], value);
      } else if (IsBetter(value, joined[found->second])) {
        joined[found->second] = std::move(value);
      }
    }
    for (const auto& [list, count] : items_here) items_before[list] += count;
  }
  return joined;
}

OrderedJson AssembleValues(const ExtractCategory& category,
                           const std::vector<ExtractedValue>& values) {
  ByName by_name;
  for (const ExtractedValue& value : values) by_name.emplace(value.name, &value);
  bool has_value = false;
  return ObjectOf(category.attributes, "", by_name, has_value);
}

}  // namespace banyan
