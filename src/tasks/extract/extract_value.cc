#include "tasks/extract/extract_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;
using ByName = std::map<std::string_view, const ExtractedValue*>;

bool IsBetter(const ExtractedValue& a, const ExtractedValue& b) {
  if (a.value.is_null() != b.value.is_null()) return b.value.is_null();
  if (!a.value.is_null() && a.grounded() != b.grounded()) return a.grounded();
  // Of parts without a value, the least sure says how sure the document is.
  return a.value.is_null() ? a.confidence < b.confidence : a.confidence > b.confidence;
}

// Items that are new go behind those that are there.
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
