// The layout of --help: names on the left, wrapped text on the right.
#include "shell/help_format.h"

#include <fmt/format.h>

#include <map>
#include <sstream>
#include <utility>

#include "shell/option_words.h"

namespace banyan::app {
namespace {

constexpr size_t kLeft = 30, kWidth = 100;

// Letters, not bytes: those that continue one begin with the bits 10.
size_t Columns(const std::string& text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

// What SetFirstOptions said; options are defined once, at the start of the program.
std::map<const CLI::App*, std::vector<std::string>>& FirstOptions() {
  static std::map<const CLI::App*, std::vector<std::string>> options;
  return options;
}

}  // namespace

void SetFirstOptions(CLI::App& command, std::vector<std::string> names) {
  command.set_help_all_flag("--help-all", "All options, group by group");
  FirstOptions()[&command] = std::move(names);
}

std::string HelpFormat::make_help(const CLI::App* app, std::string name,
                                  CLI::AppFormatMode mode) const {
  const auto found = FirstOptions().find(app);
  if (found == FirstOptions().end() || mode != CLI::AppFormatMode::Normal) {
    return CLI::Formatter::make_help(app, name, mode);
  }
  std::string text =
      make_description(app) + make_usage(app, name) + make_positionals(app) + "\nCommon options:\n";
  for (const std::string& option : found->second) {
    text += make_option(app->get_option(option), false);
  }
  size_t all = 0;
  for (const CLI::Option* option : ShownOptions(*app)) all += option->nonpositional() ? 1 : 0;
  text +=
      fmt::format("\n{} more options: {} --help-all\n", all - found->second.size(), FullName(*app));
  return text + make_subcommands(app, mode) + '\n' + make_footer(app);
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
  size_t column = kLeft;
  for (std::string word; words >> word;) {
    if (column > kLeft && column + 1 + Columns(word) > kWidth) {
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

}  // namespace banyan::app
