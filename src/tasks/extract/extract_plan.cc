// Texts of the prompt, few-shot examples included, then slots, templates and schemas of values.
#include "tasks/extract/extract_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "tasks/extract/extract_convert.h"
#include "tasks/prompt/prompt.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Most values of one template: models are trained with templates of about this size.
constexpr size_t kMostSlotsTogether = 24;
// A template with its values may take this share of the context; the document has the rest.
constexpr std::int64_t kTemplateShare = 3;

std::string DescribeAttribute(const Leaf& leaf) {
  const ExtractAttribute& attribute = *leaf.attribute;
  std::string line = fmt::format("- {} ({})", leaf.name, attribute.type);
  if (!attribute.description.empty()) line += ": " + attribute.description;
  if (!attribute.examples.empty()) {
    line += fmt::format(" Examples: {}", fmt::join(attribute.examples, ", "));
  }
  return line;
}

// Objects with a description have a line before their attributes.
void DescribeObjects(const std::vector<ExtractAttribute>& attributes, const std::string& prefix,
                     std::vector<std::string>& lines) {
  for (const ExtractAttribute& attribute : attributes) {
    if (attribute.kind != ValueKind::kObject) continue;
    const std::string name = prefix + attribute.name;
    if (!attribute.description.empty()) {
      lines.push_back(fmt::format("- {} (object): {}", name, attribute.description));
    }
    DescribeObjects(attribute.parts, name + ".", lines);
  }
}

bool NeedsDetails(const CategoryPlan& plan) {
  if (!plan.category->description.empty() || !plan.examples.empty()) return true;
  return std::ranges::any_of(plan.leaves, [](const Leaf& leaf) {
    const ExtractAttribute& attribute = *leaf.attribute;
    return !attribute.description.empty() || !attribute.examples.empty() ||
           attribute.type != "text";
  });
}

std::string DetailsOf(const CategoryPlan& plan) {
  if (!NeedsDetails(plan)) return "";
  const ExtractCategory& category = *plan.category;
  std::string details;
  if (!category.name.empty()) details += "Category: " + category.name + "\n";
  if (!category.description.empty()) details += category.description + "\n";
  if (!details.empty()) details += "\n";
  return details + "Attributes:\n" + plan.attributes + "\n\n" + plan.examples + "Text:\n";
}

// Replaces {names} and {category}.
std::string WriteInstruction(const CategoryPlan& plan, const std::string& text) {
  std::string written;
  for (const TemplatePiece& piece : ParsePromptTemplate(text)) {
    if (!piece.is_variable) {
      written += piece.text;
    } else if (piece.text == "names") {
      written += plan.names;
    } else if (piece.text == "category") {
      written += plan.category->name;
    } else {
      Throw(ErrorKind::kUsage,
            "--instruction: {{{}}} is not known: expected {{names}} or {{category}}; write '{{{{' "
            "for a brace",
            piece.text);
    }
  }
  return written;
}

void CheckLeaves(const CategoryPlan& plan, const SlotRequest& request) {
  std::set<std::string> names;
  for (const Leaf& leaf : plan.leaves) {
    const std::string& schema = request.options->schema_name;
    if (!names.insert(leaf.name).second) {
      Throw(ErrorKind::kUsage, "{}: two attributes are called '{}'", schema, leaf.name);
    }
    if (leaf.attribute->kind == ValueKind::kObjects && request.options->stack > 1) {
      Throw(ErrorKind::kUsage,
            "{}: attribute '{}' is a list of objects, which --stack {} cannot write", schema,
            leaf.name, request.options->stack);
    }
  }
}

// Divides the slots of one document into as few templates as hold them.
std::vector<SlotGroup> Divide(const std::vector<ValueSlot>& slots, std::int64_t window) {
  std::int64_t positions = 0;
  std::vector<SlotGroup> groups = {{0, 0}};
  for (size_t i = 0; i < slots.size(); ++i) {
    const auto needs = static_cast<std::int64_t>(slots[i].tokens.size()) + slots[i].max_tokens;
    const bool full = i - groups.back().begin >= kMostSlotsTogether ||
                      (positions + needs) * kTemplateShare > window;
    if (full && i > groups.back().begin) {
      groups.push_back({i, i});
      positions = 0;
    }
    positions += needs;
    groups.back().end = i + 1;
  }
  return groups;
}

void PlanSlots(CategoryPlan& plan, SlotRequest& request, std::int64_t window) {
  const ExtractOptions& options = *request.options;
  const size_t leaves = plan.leaves.size();
  for (int document = 0; document < options.stack; ++document) {
    for (size_t n = 0; n < leaves; ++n) {
      std::string piece = PieceBefore(plan.leaves, n, /*first=*/n == 0);
      if (options.stack > 1 && n == 0) {
        const std::string before =
            document == 0 ? "{" : ClosingAfter(plan.leaves, leaves - 1) + "},\n";
        piece = fmt::format("{}\"{}\": {}", before, document + 1, piece);
      }
      plan.slots.push_back(MakeSlot(*plan.leaves[n].attribute, std::move(piece), request));
    }
  }
  plan.groups = {{0, plan.slots.size()}};
  if (options.stack > 1 || options.values == ValueMode::kSequential) return;
  plan.groups = Divide(plan.slots, window);
  for (const SlotGroup& group : plan.groups) {
    if (group.begin == 0) continue;  // every template begins as if it were the only one
    plan.slots[group.begin] = MakeSlot(*plan.leaves[group.begin].attribute,
                                       PieceBefore(plan.leaves, group.begin, true), request);
  }
}

void PlanFits(CategoryPlan& plan, SlotRequest& request) {
  const auto fits = [&](const ExtractAttribute& attribute) {
    auto& made = request.made["fits\n" + attribute.json_schema];
    try {
      if (!made) made = Constraint::FromJsonSchema(attribute.json_schema, request.trie);
    } catch (const Error& e) {
      Throw(ErrorKind::kUsage, "{}: attribute '{}': {}", request.options->schema_name,
            attribute.name, e.what());
    }
    return made;
  };
  for (const Leaf& leaf : plan.leaves) {
    const bool objects = leaf.attribute->kind == ValueKind::kObjects;
    plan.fits.push_back(objects ? nullptr : fits(*leaf.attribute));
    std::vector<std::shared_ptr<const Constraint>>& items = plan.item_fits.emplace_back();
    if (!objects) continue;
    for (const ExtractAttribute& part : leaf.attribute->parts) items.push_back(fits(part));
  }
}

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

// With a space after each comma, as models write lists.
std::string Spaced(const OrderedJson& value) {
  if (!value.is_array()) return DumpJson(value);
  std::vector<std::string> items;
  for (const OrderedJson& item : value) items.push_back(DumpJson(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

struct ExtractExample {
  std::string category, text;
  OrderedJson values;
};

// The examples of a few-shot file: {"text","values","category"?} a line. Throws kUsage.
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

// The examples of a category as the prompt has them: texts with their values in the form that the
// model is to write, a number or a date as its text has it.
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

}  // namespace

CategoryPlan PlanCategory(const ExtractCategory& category, SlotRequest& request,
                          std::int64_t window) {
  CategoryPlan plan;
  plan.category = &category;
  plan.leaves = LeavesOf(category);
  CheckLeaves(plan, request);
  std::vector<std::string> lines;
  DescribeObjects(category.attributes, "", lines);
  for (const Leaf& leaf : plan.leaves) {
    lines.push_back(DescribeAttribute(leaf));
    plan.names += (plan.names.empty() ? "" : ", ") + leaf.name;
  }
  plan.attributes = fmt::format("{}", fmt::join(lines, "\n"));
  PlanSlots(plan, request, window);
  PlanFits(plan, request);
  plan.examples = WriteExamples(plan, request.options->few_shot, request.options->stack > 1);
  plan.instruction = WriteInstruction(plan, request.options->instruction);
  plan.details = DetailsOf(plan);
  plan.sequence_tokens = 8;
  for (const ValueSlot& slot : plan.slots) {
    plan.sequence_tokens += slot.max_tokens + static_cast<int>(slot.tokens.size()) + 2;
  }
  return plan;
}

std::string WriteDocuments(std::span<const std::string_view> documents) {
  std::string text;
  for (size_t i = 0; i < documents.size(); ++i) {
    text += fmt::format("{}Document {}:\n{}", i == 0 ? "" : "\n\n", i + 1, documents[i]);
  }
  return text;
}

}  // namespace banyan
