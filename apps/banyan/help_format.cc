#include "help_format.h"

#include <sstream>

#include "option_words.h"

namespace banyan::app {
namespace {

constexpr size_t kLeft = 30, kWidth = 100;

// Letters, not bytes: those that continue one begin with the bits 10.
size_t Columns(const std::string& text) {
  size_t columns = 0;
  for (const char c : text) columns += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return columns;
}

}  // namespace

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

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return TwoColumns(command->get_name(), command->get_description());
}

}  // namespace banyan::app
