// The layout of --help: names on the left, wrapped text on the right. Then `banyan help`: the same
// texts; with --reference every option as a page (docs/options.md).
#include "shell/help.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "program.h"
#include "program/options.h"
#include "shell/completion.h"
#include "shell/option_words.h"
#include "shell/parse_message.h"
#include "terminal/terminal.h"

namespace banyan::app {

namespace {

constexpr size_t kLeft = 30, kWidth = 100, kLeastWidth = 40;
constexpr size_t kFullLine = 80;  // a line of the source that ends because it is full

// Letters, not bytes: those that continue one begin with the bits 10.
size_t Columns(const std::string& text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

// What SetFirstOptions said; options are defined once, at the start of the program.
std::map<const CLI::App*, std::vector<FirstOptions>>& AllFirstOptions() {
  static std::map<const CLI::App*, std::vector<FirstOptions>> options;
  return options;
}

std::string WrappedLine(const std::string& line, size_t width) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::string_view words = std::string_view(line).substr(begin);
  const bool command = words.starts_with("$ ") || words.starts_with("banyan ");
  const std::string margin(std::min(begin + (command ? 4 : 0), width / 2), ' ');
  const size_t room = width - (command ? 2 : 0);  // for the backslash
  std::string text(begin, ' ');
  size_t column = begin;
  bool first = true;
  std::istringstream stream{std::string(words)};
  for (std::string word; stream >> word;) {
    const size_t columns = Columns(word);
    if (!first && column + 1 + columns > room) {
      text += (command ? " \\\n" : "\n") + margin;
      column = margin.size();
      first = true;
    }
    text += (first ? "" : " ") + word;
    column += columns + (first ? 0 : 1);
    first = false;
  }
  return text;
}

// Whether a line goes on with the prose of a full one before it.
bool GoesOn(const std::string& before, const std::string& line) {
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string::npos || before.ends_with(':')) return false;
  if (before.find_first_not_of(' ') != begin) return false;
  const auto is_command = [begin](std::string_view text) {
    return text.substr(begin).starts_with("$ ") || text.substr(begin).starts_with("banyan ");
  };
  const bool is_sample = std::string_view("{\"-|'").find(line[begin]) != std::string_view::npos;
  return !is_sample && !is_command(line) && !is_command(before);
}

}  // namespace

void SetFirstOptions(CLI::App& command, std::vector<FirstOptions> groups) {
  AllFirstOptions()[&command] = std::move(groups);
}

size_t HelpWidth() {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {  // the latter of "… --help | less"
    winsize size{};
    if (::ioctl(stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) continue;
    return std::clamp<size_t>(size.ws_col, kLeastWidth, kWidth);
  }
  return kWidth;
}

std::string WrapLines(const std::string& text, size_t width) {
  std::string wrapped;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    wrapped += (Columns(line) > width ? WrappedLine(line, width) : line) + "\n";
  }
  return wrapped;
}

// The source's lines of prose become one line a paragraph, which is then as wide as the terminal.
std::string HelpFormat::make_footer(const CLI::App* app) const {
  std::string joined, before;
  std::istringstream lines(CLI::Formatter::make_footer(app));
  for (std::string line; std::getline(lines, line);) {
    const bool goes_on = Columns(before) >= kFullLine && GoesOn(before, line);
    if (goes_on) joined.back() = ' ';
    joined += (goes_on ? line.substr(line.find_first_not_of(' ')) : line) + "\n";
    before = line;
  }
  return joined;
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  const auto found = AllFirstOptions().find(app);
  if (found == AllFirstOptions().end() || mode != CLI::AppFormatMode::Normal) {
    return WrapLines(CLI::Formatter::make_help(app, name, mode), HelpWidth());
  }
  std::string text = make_description(app) + make_usage(app, name) + make_positionals(app);
  size_t shown = 0;
  for (const FirstOptions& group : found->second) {
    text += "\n" + group.title + ":\n";
    shown += group.names.size();
    for (const std::string& option : group.names) {
      text += make_option(app->get_option(option), false);
    }
  }
  size_t all = 0;
  for (const CLI::Option* option : ShownOptions(*app)) all += option->nonpositional() ? 1 : 0;
  text += fmt::format("\n{} more options: {} --help-all\n", all - shown, FullName(*app));
  return WrapLines(text + make_subcommands(app, mode) + '\n' + make_footer(app), HelpWidth());
}

std::string TwoColumns(const std::string& left, const std::string& right) {
  std::string text = "  " + left;
  if (right.empty()) return text + "\n";
  if (Columns(text) + 1 >= kLeft) {
    text += '\n' + std::string(kLeft, ' ');
  } else {
    text += std::string(kLeft - Columns(text), ' ');
  }
  std::istringstream words(right);
  const size_t width = HelpWidth();
  size_t column = kLeft;
  for (std::string word; words >> word;) {
    if (column > kLeft && column + 1 + Columns(word) > width) {
      text += '\n' + std::string(kLeft, ' ');
      column = kLeft;
    }
    if (column > kLeft) {
      text += ' ';
      ++column;
    }
    text += word;
    column += Columns(word);
  }
  return text + "\n";
}

HelpFormat::HelpFormat() {
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  std::string left = NamesOf(*option);
  const std::string placeholder = ValueOf(*option).placeholder;
  if (!is_positional && !placeholder.empty()) left += ' ' + placeholder;
  return TwoColumns(left, DescriptionOf(*option));
}

std::string HelpFormat::make_group(std::string group, bool is_positional,
                                   std::vector<const CLI::Option*> options) const {
  if (group == kHiddenGroup) return "";
  return CLI::Formatter::make_group(std::move(group), is_positional, std::move(options));
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return TwoColumns(command->get_name(), command->get_description());
}

namespace {

constexpr size_t kPageWidth = 118;

constexpr const char* kIntroduction =
    R"(<!-- Written by `banyan help --reference`; a test compares it. -->
# Options

An option has one row in one table (`src/tasks/options/`). The command line, the server's requests and
`/openapi.json`, Python's keywords, the journal that resumes a job and this page come from that row. Over HTTP an
option is a field of the request's body, in Python a keyword: `--max-new` is `max_new`, unless the page says otherwise.
Options marked with * make a job what it is: a job resumes only with the same values.
)";

const std::vector<std::pair<std::string, std::string>>& Titles() {
  static const std::vector<std::pair<std::string, std::string>> titles = {
      {"ask", "Questions: `banyan ask`, `/v1/ask`, `banyan.ask`"},
      {"extract", "Values: `banyan extract`, `/v1/extract`, `banyan.extract`"},
      {"rag", "Questions over many documents: `banyan rag`, `/v1/rag`, `banyan.rag`"},
      {"table", "Tables: `banyan map`, `filter`, `rank`, `group`, `join`"},
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

// The interfaces of an option. Its name over HTTP and in Python follows from that of the command
// line; it is given where it does not, and so is an interface that lacks the option.
std::string DoorWords(const OptionFacts& facts) {
  const bool shell = (facts.interfaces & kCommandLine) != 0, http = (facts.interfaces & kHttp) != 0,
             python = (facts.interfaces & kPython) != 0;
  std::string expected = CommandName(facts).substr(2);
  std::ranges::replace(expected, '-', '_');
  std::vector<std::string> interfaces;
  if (shell) interfaces.push_back("`" + CommandName(facts) + "`");
  if (http && (!shell || HttpName(facts) != expected))
    interfaces.push_back("HTTP `" + HttpName(facts) + "`");
  if (python && (!shell || facts.name != expected))
    interfaces.push_back("Python `" + facts.name + "`");
  if (shell && !http && !python) return interfaces.front() + " (command line)";
  std::string words = fmt::format("{}", fmt::join(interfaces, ", "));
  if (shell && !http) words += " (not over HTTP)";
  if (shell && !python) words += " (not in Python)";
  return words;
}

std::string Entry(const OptionFacts& facts) {
  std::string text = fmt::format("{}{}: {}", DoorWords(facts),
                                 facts.identity == InIdentity::kNo ? "" : " *", ValueWords(facts));
  const std::string standard =
      !facts.default_value || facts.kind == OptionKind::kText ? "" : DataText(*facts.default_value);
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

// Options of a command that no table has, as an entry of the page each.
std::vector<std::string> Besides(const CLI::App& command, const TableNames& in_tables) {
  std::vector<std::string> entries;
  for (const CLI::Option* option : ShownOptions(command)) {
    if (!option->nonpositional() || option->check_lname("help") ||
        option->check_lname("help-all") || IsOfTable(*option, in_tables)) {
      continue;
    }
    const std::string placeholder = ValueOf(*option).placeholder;
    entries.push_back(fmt::format("`{}{}`: {}.", NamesOf(*option),
                                  placeholder.empty() ? "" : " " + placeholder,
                                  DescriptionOf(*option)));
  }
  return entries;
}

// Those of several commands stand once, with the commands that have them.
std::string OnlyOnTheCommandLine(const CLI::App& root, const TableNames& in_tables) {
  std::vector<std::pair<std::string, std::vector<std::string>>> of_commands;
  std::map<std::string, std::vector<std::string>> commands_of;
  for (const TypedCommand& command : TypedCommands(root)) {
    std::vector<std::string> entries = Besides(*command.app, in_tables);
    for (const std::string& entry : entries) {
      const std::string name = FullName(*command.app);
      const size_t program = name.find(' ');  // "banyan ask" → "ask"
      commands_of[entry].push_back("`" + name.substr(program + 1) + "`");
    }
    if (!entries.empty()) of_commands.emplace_back(FullName(*command.app), std::move(entries));
  }
  std::string page = "\n## Only on the command line\n\n### Several commands\n";
  for (const auto& [entry, commands] : commands_of) {
    if (commands.size() < 2) continue;
    page += Wrapped("- ", fmt::format("{} Of {}.", entry, fmt::join(commands, ", ")), "  ");
  }
  for (const auto& [name, entries] : of_commands) {
    std::string own;
    for (const std::string& entry : entries) {
      if (commands_of[entry].size() < 2) own += Wrapped("- ", entry, "  ");
    }
    if (!own.empty()) page += "\n### `" + name + "`\n" + own;
  }
  return page;
}

std::string OptionReference(const CLI::App& root) {
  std::string page = kIntroduction;
  TableNames in_tables;
  std::map<std::string, std::string> first_table;  // entry → the table that has it first
  for (const NamedTable& table : AllTables()) {
    const auto title =
        std::ranges::find(Titles(), table.name, &std::pair<std::string, std::string>::first);
    page += "\n## " + title->second + "\n";
    std::map<std::string, std::vector<std::string>> known;  // table → options with the same entry
    for (const OptionFacts* facts : table.rows) {
      in_tables.emplace_back(CommandName(*facts), facts->help);
      if (facts->for_comparison) continue;
      const std::string entry = Entry(*facts);
      const auto [first, is_new] = first_table.emplace(entry, table.name);
      if (is_new) {
        page += entry;
      } else {
        known[first->second].push_back("`" + CommandName(*facts) + "`");
      }
    }
    for (const auto& [name, options] : known) {
      page += Wrapped("- ", fmt::format("As in `{}`: {}.", name, fmt::join(options, ", ")), "  ");
    }
  }
  return page + OnlyOnTheCommandLine(root, in_tables);
}

// banyan help: the same texts as --help, for those who ask that way round.

// The command of these names below root. Throws kUsage.
const CLI::App& FindCommand(const CLI::App& root, const std::vector<std::string>& names) {
  const CLI::App* command = &root;
  for (const std::string& name : names) {
    const CLI::App* found = nullptr;
    for (const CLI::App* sub : command->get_subcommands({})) {
      if (sub->check_name(name)) found = sub;
    }
    if (found == nullptr) throw Error(ErrorKind::kUsage, NoSuchCommand(*command, name));
    command = found;
  }
  return *command;
}

// What --help would print: the formatter itself, because App::help() goes to the command that was
// parsed, which is `help`.
std::string HelpOf(const CLI::App& command) {
  return command.get_formatter()->make_help(&command, FullName(command),
                                            CLI::AppFormatMode::Normal);
}

}  // namespace

Command AddHelp(CLI::App& app) {
  CLI::App* command = app.add_subcommand("help", "Show the help of a command");
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("command", *names, "Its name, such as: ask, or: bench forest");
  auto reference = std::make_shared<bool>(false), table = std::make_shared<bool>(false);
  command->add_flag("--reference", *reference, "Every option, as a page (docs/options.md)");
  command->add_flag("--json", *table, "Every option of the tables, as JSON");
  return [=, &app] {
    if (*reference || *table) {
      Print(*reference ? OptionReference(app) : OptionTablesJson() + "\n");
      return 0;
    }
    if (!names->empty() && names->front() == "bench") {
      std::vector<std::string> words(names->begin() + 1, names->end());
      words.push_back("--help");
      CallBench(words);
    }
    Print(HelpOf(FindCommand(app, *names)));
    return 0;
  };
}

}  // namespace banyan::app
