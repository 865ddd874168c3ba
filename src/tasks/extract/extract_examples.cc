// Few-shot examples of `extract`: texts with their values, as the model is to write them.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "tasks/extract/extract_convert.h"
#include "tasks/extract/extract_plan.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// The value at a path of objects; null when it is not there.
OrderedJson ValueAt(const OrderedJson& values, const std::vector<std::string>& path) {
  const OrderedJson* at = &values;
  for (const std::string& name : path) {
    if (!at->is_object() || !at->contains(name)) return nullptr;
    at = &at->at(name);
  }
  return *at;
}

// A value of a type as the text that stands in the document.
OrderedJson InForm(const ExtractAttribute& attribute, const OrderedJson& value,
                   std::string_view text) {
  switch (attribute.kind) {
    case ValueKind::kNumber:
    case ValueKind::kInteger:
    case ValueKind::kDate:
      if (value.is_null()) return value;
      return FindMention(attribute, value, text).value_or(TextOrJson(value));
    case ValueKind::kList: {
      if (!value.is_array()) return value;
      OrderedJson items = OrderedJson::array();
      for (const OrderedJson& item : value) {
        items.push_back(InForm(attribute.parts.front(), item, text));
      }
      return items;
    }
    case ValueKind::kObjects: {  // the first attribute of every object
      if (!value.is_array()) return value;
      OrderedJson items = OrderedJson::array();
      for (const OrderedJson& item : value) {
        const ExtractAttribute& first = attribute.parts.front();
        items.push_back(InForm(first, ValueAt(item, {first.name}), text));
      }
      return items;
    }
    default:
      return value;
  }
}

// With a space after a comma, as the model writes lists.
std::string Spaced(const OrderedJson& value) {
  if (!value.is_array()) return DumpJson(value);
  std::vector<std::string> items;
  for (const OrderedJson& item : value) items.push_back(DumpJson(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

}  // namespace

std::string WriteExamples(const CategoryPlan& plan, std::string_view few_shot, bool stacked) {
  std::string examples;
  for (const ExtractExample& example : ReadFewShot(few_shot)) {
    if (!example.category.empty() && example.category != plan.category->name) continue;
    std::string values;
    for (size_t n = 0; n < plan.leaves.size(); ++n) {
      const Leaf& leaf = plan.leaves[n];
      const OrderedJson value = ValueAt(example.values, leaf.path);
      values += PieceBefore(plan.leaves, n, n == 0) + " " +
                Spaced(InForm(*leaf.attribute, value, example.text));
    }
    values += ClosingAfter(plan.leaves, plan.leaves.size() - 1) + "}";
    const std::string_view text = example.text;
    examples += fmt::format("Text:\n{}\n\nAnswer:\n{}\n\n",
                            stacked ? WriteDocuments({&text, 1}) : example.text,
                            stacked ? "{\"1\": " + values + "}" : values);
  }
  return examples;
}

std::vector<ExtractExample> ReadFewShot(std::string_view text) {
  std::vector<ExtractExample> examples;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("--few-shot, line {}", number);
    OrderedJson json;
    try {
      json = OrderedJson::parse(line);
    } catch (const OrderedJson::exception&) {
      Throw(ErrorKind::kUsage, "{}: not valid JSON", where);
    }
    const bool fits = json.is_object() && json.contains("text") && json.at("text").is_string() &&
                      json.contains("values") && json.at("values").is_object();
    if (!fits) {
      Throw(ErrorKind::kUsage, "{}: expected {{\"text\": text, \"values\": object}}", where);
    }
    ExtractExample& example = examples.emplace_back();
    example.text = json.at("text").get<std::string>();
    example.values = json.at("values");
    if (json.contains("category") && json.at("category").is_string()) {
      example.category = json.at("category").get<std::string>();
    }
  }
  return examples;
}

}  // namespace banyan
