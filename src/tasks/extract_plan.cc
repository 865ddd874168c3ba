#include "tasks/extract_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/json_row.h"
#include "tasks/extract_joint.h"
#include "tasks/prompt.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What the model may write after a value: the beginning of what the template goes on with. Tokens
// that hold the end of a value and some of this are allowed, and nothing of it is kept.
const std::vector<std::string> kAfterValue = {",", ",\n", "\n", "\n}", "}"};
// The same in a stack, where an object of values stands in the documents' object.
const std::vector<std::string> kAfterStackedValue = {",", ",\n", "\n",   "\n}",
                                                     "}", "},",  "},\n", "}}"};

// Beginnings that a value may have after a piece.
const std::vector<std::string> kValueBeginnings = {" \"A",  " \"the", " null", " 1",   " -2",
                                                   " true", " false", " [\"",  " {\"", " \"1"};

// What stands before an attribute's value. `document` counts the stack's from 0.
std::string PieceText(const ExtractAttribute& attribute, bool first, bool stacked, int document) {
  std::string before = first ? "{" : ",\n";
  if (first && stacked) {
    before = fmt::format("{}\"{}\": {{", document == 0 ? "{" : "},\n", document + 1);
  }
  return before + DumpJson(OrderedJson(attribute.name)) + ":";
}

std::string DescribeAttribute(const ExtractAttribute& attribute) {
  std::string line = fmt::format("- {} ({})", attribute.name, attribute.type);
  if (!attribute.description.empty()) line += ": " + attribute.description;
  if (!attribute.examples.empty()) {
    line += fmt::format(" Examples: {}", fmt::join(attribute.examples, ", "));
  }
  return line;
}

int Budget(const ExtractAttribute& attribute, const ExtractOptions& options) {
  if (attribute.max_tokens > 0) return attribute.max_tokens;
  return options.max_tokens > 0 ? options.max_tokens : attribute.typical_tokens;
}

// The values as the template has them.
std::string WriteValues(const ExtractCategory& category, const OrderedJson& values, bool stacked) {
  std::string text;
  for (const ExtractAttribute& attribute : category.attributes) {
    const auto value = values.find(attribute.name);
    text += PieceText(attribute, text.empty(), stacked, 0) + " ";
    text += value == values.end() ? "null" : DumpJson(*value);
  }
  return text + (stacked ? "}}" : "}");
}

[[noreturn]] void RefuseAttribute(const ExtractAttribute& attribute, const PlanRequest& request,
                                  const std::string& why) {
  Throw(ErrorKind::kUsage, "{}: attribute '{}': {}", request.options->schema_name, attribute.name,
        why);
}

ValueSlot MakeSlot(const ExtractAttribute& attribute, bool first, int document,
                   PlanRequest& request) {
  const bool stacked = request.options->stack > 1;
  ValueSlot slot;
  slot.piece = PieceText(attribute, first, stacked, document);
  Joint joint = FindJoint(*request.text, slot.piece, kValueBeginnings);
  if (joint.tokens.empty()) {
    RefuseAttribute(attribute, request,
                    "the tokenizer has no boundary between its name and its value");
  }
  slot.tokens = std::move(joint.tokens);
  slot.rest = std::move(joint.rest);
  slot.max_tokens = Budget(attribute, *request.options);
  std::vector<std::string> after = stacked ? kAfterStackedValue : kAfterValue;
  if (!attribute.ends_bare) after.insert(after.begin(), "");
  const JsonSlot value{slot.rest + " ", attribute.json_schema};
  std::shared_ptr<const Constraint>& made =
      request.made[fmt::format("{}\n{}\n{}", slot.rest, after.size(), attribute.json_schema)];
  ConstraintOptions options;
  options.end_tokens = request.end_tokens;
  options.end_when_complete = true;
  options.mask_bytes = size_t{8} << 20;
  try {
    if (!made) made = Constraint::FromJsonTemplate({&value, 1}, after, request.trie, options);
  } catch (const Error& e) {
    RefuseAttribute(attribute, request, e.what());
  }
  slot.constraint = made;
  return slot;
}

bool NeedsDetails(const CategoryPlan& plan) {
  const ExtractCategory& category = *plan.category;
  if (!category.description.empty() || !plan.examples.empty()) return true;
  return std::ranges::any_of(category.attributes, [](const ExtractAttribute& attribute) {
    return !attribute.description.empty() || !attribute.examples.empty() || !attribute.is_text;
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

// {names} and {category} in it.
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

// Everything in one answer.
void PlanSequence(CategoryPlan& plan, const PlanRequest& request) {
  std::vector<JsonSlot> slots;
  int tokens = 8;
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const ValueSlot& slot = plan.slots[i];
    slots.push_back(
        {(i == 0 ? slot.rest : slot.piece) + " ", plan.category->attributes[i].json_schema});
    tokens += slot.max_tokens + static_cast<int>(slot.tokens.size()) + 2;
  }
  const std::vector<std::string> after = {"}", "\n}"};
  ConstraintOptions options;
  options.end_tokens = request.end_tokens;
  options.end_when_complete = true;
  try {
    plan.whole = Constraint::FromJsonTemplate(slots, after, request.trie, options);
  } catch (const Error& e) {
    Throw(ErrorKind::kUsage, "{}: {}", request.options->schema_name, e.what());
  }
  plan.whole_tokens = tokens;
}

}  // namespace

CategoryPlan PlanCategory(const ExtractCategory& category, PlanRequest& request) {
  CategoryPlan plan;
  plan.category = &category;
  std::vector<std::string> lines;
  for (const ExtractAttribute& attribute : category.attributes) {
    lines.push_back(DescribeAttribute(attribute));
  }
  for (int document = 0; document < request.options->stack; ++document) {
    for (const ExtractAttribute& attribute : category.attributes) {
      const bool first = &attribute == &category.attributes.front();
      plan.slots.push_back(MakeSlot(attribute, first, document, request));
    }
  }
  plan.attributes = fmt::format("{}", fmt::join(lines, "\n"));
  for (const ExtractExample& example : ReadFewShot(request.options->few_shot)) {
    if (!example.category.empty() && example.category != category.name) continue;
    const std::string_view text = example.text;
    const bool stacked = request.options->stack > 1;
    plan.examples += fmt::format("Text:\n{}\n\nAnswer:\n{}\n\n",
                                 stacked ? WriteDocuments({&text, 1}) : example.text,
                                 WriteValues(category, example.values, stacked));
  }
  for (const ExtractAttribute& attribute : category.attributes) {
    plan.names += (plan.names.empty() ? "" : ", ") + attribute.name;
  }
  plan.instruction = WriteInstruction(plan, request.options->instruction);
  plan.details = DetailsOf(plan);
  if (request.options->values == ValueMode::kSequential) PlanSequence(plan, request);
  return plan;
}

std::string WriteDocuments(std::span<const std::string_view> documents) {
  std::string text;
  for (size_t i = 0; i < documents.size(); ++i) {
    text += fmt::format("{}Document {}:\n{}", i == 0 ? "" : "\n\n", i + 1, documents[i]);
  }
  return text;
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
