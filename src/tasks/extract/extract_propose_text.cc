// A proposed schema for people and for programs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "banyan/extract.h"
#include "base/characters.h"
#include "base/json.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kExampleWidth = 28;  // characters
constexpr size_t kExamplesShown = 3;  // different ones

size_t WidthOf(const std::string& text) { return static_cast<size_t>(CountCharacters(text)); }

// As many characters as fit.
std::string Cut(const std::string& text, size_t width) {
  if (WidthOf(text) <= width) return text;
  size_t byte = 0;
  for (size_t characters = 0; byte < text.size(); ++byte) {
    if (BeginsCharacter(text[byte]) && ++characters == width) break;
  }
  return text.substr(0, byte) + "…";
}

std::string Padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, WidthOf(text)), ' ');
}

std::string SourceOf(const ProposedAttribute& attribute) {
  if (attribute.label_documents == 0) return "";
  return fmt::format("label in {}", attribute.label_documents);
}

}  // namespace

std::string SchemaProposal::ToText() const {
  std::vector<std::vector<std::string>> rows = {
      {"attribute", "type", "documents", "sure", "", "examples"}};
  for (const ProposedAttribute& attribute : attributes) {
    std::vector<std::string> examples;
    for (const ProposedAttribute::Example& example : attribute.examples) {
      const std::string shown = Cut(example.value, kExampleWidth);
      if (examples.size() == kExamplesShown) break;
      if (std::ranges::find(examples, shown) == examples.end()) examples.push_back(shown);
    }
    rows.push_back({attribute.name, Cut(attribute.type, 32),
                    fmt::format("{} of {}", attribute.documents, documents),
                    fmt::format("{:.2f}", attribute.confidence), SourceOf(attribute),
                    fmt::format("{}", fmt::join(examples, " | "))});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], WidthOf(row[c]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t c = 0; c + 1 < row.size(); ++c) {
      if (widths[c] > 0) line += Padded(row[c], widths[c]) + "  ";
    }
    text += line + row.back() + "\n";
  }
  return text;
}

std::string SchemaProposal::ToJson() const {
  OrderedJson list = OrderedJson::array();
  for (const ProposedAttribute& attribute : attributes) {
    OrderedJson examples = OrderedJson::array();
    for (const ProposedAttribute::Example& example : attribute.examples) {
      examples.push_back({{"value", example.value}, {"document", example.document}});
    }
    list.push_back({{"name", attribute.name},
                    {"type", attribute.type},
                    {"documents", attribute.documents},
                    {"coverage", std::round(1e4 * attribute.documents / documents) / 1e4},
                    {"confidence", std::round(1e4 * attribute.confidence) / 1e4},
                    {"label_documents", attribute.label_documents},
                    {"values", std::move(examples)}});
  }
  return DumpJson(OrderedJson{{"documents", documents},
                              {"kinds", kinds},
                              {"attributes", std::move(list)},
                              {"schema", OrderedJson::parse(schema)}});
}

}  // namespace banyan
