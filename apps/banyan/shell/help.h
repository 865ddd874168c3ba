// How `--help` looks. `banyan help` is in the same source (AddHelp of program.h).
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace banyan::app {

// The group of options that work but are not shown. (CLI11 gives options of a group without a name
// no name in its messages.)
inline constexpr const char* kHiddenGroup = "hidden";

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_group(std::string group, bool is_positional,
                         std::vector<const CLI::Option*> options) const override;
  // Of a command with first options, these alone; --help-all shows the others.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

// The options that --help of the command shows, by long name, in groups and in this order.
// REQUIRES: the command has them.
struct FirstOptions {
  std::string title;
  std::vector<std::string> names;
};
void SetFirstOptions(CLI::App& command, std::vector<FirstOptions> groups);

// Columns of a line of help: those of the terminal that it goes to, by itself or through a pager,
// else 100; 40 at least.
size_t HelpWidth();
// Names on the left, words on the right, in lines of at most HelpWidth() columns.
std::string TwoColumns(const std::string& left, const std::string& right);
// Lines that are longer than `width` columns go on below, under their own beginning; the line of a
// command ends with a backslash there. No word is broken.
std::string WrapLines(const std::string& text, size_t width);

}  // namespace banyan::app
