#include "shell/option_reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "program/option_table.h"
#include "shell/completion_words.h"
#include "shell/option_words.h"

namespace banyan::app {
namespace {

constexpr size_t kPageWidth = 118;

constexpr const char* kIntroduction =
    R"(<!-- Written by `banyan help --reference`; a test compares it. -->
# Options

An option has one row in one table (`src/tasks/options/`). The command line, the server's requests and
`/openapi.json`, Python's keywords, the journal that resumes a job and this page come from that row. Over HTTP an
option is a field of the request's body, in Python a keyword. Options marked with * make a job what it is: a job
resumes only with the same values.
)";

const std::vector<std::pair<std::string, std::string>>& Titles() {
  static const std::vector<std::pair<std::string, std::string>> titles = {
      {"ask", "Questions: `banyan ask`, `/v1/ask`, `banyan.ask`"},
      {"extract", "Values: `banyan extract`, `/v1/extract`, `banyan.extract`"},
      {"rag", "Questions over many documents: `banyan rag`, `/v1/rag`, `banyan.rag`"},
      {"job", "Jobs: `ask`, `extract` and `rag` over files"},
      {"model", "Loading a model: every command that runs one, `banyan.Model`"},
      {"engine", "The engine: every command that runs a model, `banyan.EngineOptions`"},
      {"kv", "KV on disk: `ask` and `rag`, `banyan.EngineOptions`"}};
  return titles;
}

// Words in lines of kPageWidth columns, each after `margin`; the first after `lead`.
std::string Wrapped(const std::string& lead, const std::string& text, const std::string& margin) {
  std::istringstream words(text);
  std::string page, line = lead;
  bool first = true;
  for (std::string word; words >> word;) {
    if (!first && line.size() + 1 + word.size() > kPageWidth) {
      page += line + "\n";
      line = margin;
      first = true;
    }
    line += (first ? "" : " ") + word;
    first = false;
  }
  return page + line + "\n";
}

std::string ValueWords(const OptionFacts& facts) {
  const std::string range = RangeWords(facts).empty() ? "" : " " + RangeWords(facts);
  const std::string unit = facts.unit.empty() ? "" : ", in " + facts.unit;
  switch (facts.kind) {
    case OptionKind::kFlag:
      return "true or false";
    case OptionKind::kWhole:
      return "a whole number" + range + unit;
    case OptionKind::kNumber:
      return "a number" + range + unit;
    case OptionKind::kName:
      return fmt::format("{}", fmt::join(facts.names, ", "));
    case OptionKind::kNameOrNumber:
      return fmt::format("{}, or a number{}", fmt::join(facts.names, ", "), range);
    case OptionKind::kTexts:
      return "texts";
    case OptionKind::kJson:
      return "JSON";
    case OptionKind::kBytes:
      return "bytes, or such as 512M";
    case OptionKind::kText:
      break;
  }
  return "a text";
}

std::string Entry(const OptionFacts& facts) {
  std::vector<std::string> doors;
  if ((facts.doors & kCommandLine) != 0) doors.push_back("`" + CommandName(facts) + "`");
  if ((facts.doors & kHttp) != 0) doors.push_back("HTTP `" + HttpName(facts) + "`");
  if ((facts.doors & kPython) != 0) doors.push_back("Python `" + facts.name + "`");
  std::string text = fmt::format("{}{}: {}", fmt::join(doors, ", "),
                                 facts.identity == InIdentity::kNo ? "" : " *", ValueWords(facts));
  const std::string standard =
      !facts.standard || facts.kind == OptionKind::kText ? "" : DataText(*facts.standard);
  if (!standard.empty()) text += "; default " + standard;
  text += ". " + facts.help + ".";
  if (!facts.http_names.empty()) {
    text += fmt::format(" Over HTTP: {}.", fmt::join(facts.http_names, ", "));
  }
  if (!facts.aliases.empty()) text += fmt::format(" Also: {}.", fmt::join(facts.aliases, ", "));
  return Wrapped("- ", text, "  ");
}

// (name on the command line, help) of every row.
using TableNames = std::vector<std::pair<std::string, std::string>>;

// A command may add to the table's help.
bool IsOfTable(const CLI::Option& option, const TableNames& rows) {
  return std::ranges::any_of(rows, [&](const auto& row) {
    return option.get_name() == row.first && option.get_description().starts_with(row.second);
  });
}

// Options of a command that no table has.
std::string Besides(const CLI::App& command, const TableNames& in_tables) {
  std::string text;
  for (const CLI::Option* option : ShownOptions(command)) {
    if (!option->nonpositional() || option->check_lname("help") ||
        option->check_lname("help-all")) {
      continue;
    }
    if (IsOfTable(*option, in_tables)) continue;
    const std::string placeholder = ValueOf(*option).placeholder;
    text +=
        Wrapped("- ",
                fmt::format("`{}{}`: {}.", NamesOf(*option),
                            placeholder.empty() ? "" : " " + placeholder, DescriptionOf(*option)),
                "  ");
  }
  return text;
}

}  // namespace

std::string OptionReference(const CLI::App& root) {
  std::string page = kIntroduction;
  TableNames in_tables;
  for (const NamedTable& table : AllTables()) {
    const auto title =
        std::ranges::find(Titles(), table.name, &std::pair<std::string, std::string>::first);
    page += "\n## " + title->second + "\n";
    for (const OptionFacts* facts : table.rows) {
      if (!facts->for_comparison) page += Entry(*facts);
      in_tables.emplace_back(CommandName(*facts), facts->help);
    }
  }
  page += "\n## Only on the command line\n";
  for (const TypedCommand& command : TypedCommands(root)) {
    const std::string besides = Besides(*command.app, in_tables);
    if (!besides.empty()) page += "\n### `" + FullName(*command.app) + "`\n" + besides;
  }
  return page;
}

}  // namespace banyan::app
