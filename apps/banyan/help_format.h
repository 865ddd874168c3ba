// How `--help` looks.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace banyan::app {

class HelpFormat : public CLI::Formatter {
 public:
  HelpFormat();
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_subcommand(const CLI::App* command) const override;
};

// Names on the left, words on the right, in lines of at most 100 columns.
std::string TwoColumns(const std::string& left, const std::string& right);

}  // namespace banyan::app
