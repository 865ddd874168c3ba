#include "tasks/table/table_template.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tasks/input/field_names.h"
#include "text/unicode.h"

namespace banyan {
namespace {

bool IsBlankText(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// "{a}, {b}".
std::string InBraces(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += fmt::format("{}{{{}}}", text.empty() ? "" : ", ", name);
  }
  return text;
}

// Names of columns may be any text, so '}' alone ends one.
std::vector<TemplatePiece> ParsePrompt(const std::string& text) {
  std::vector<TemplatePiece> pieces(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      pieces.back().text += c;
      ++i;
    } else if (c == '}') {
      Throw(ErrorKind::kUsage,
            "the prompt: '}}' at byte {} closes nothing; write '}}}}' for a brace", i);
    } else if (c == '{') {
      const size_t close = text.find_first_of("{}", i + 1);
      if (close == std::string::npos || text[close] == '{' || close == i + 1) {
        Throw(ErrorKind::kUsage,
              "the prompt: expected {{column}} at byte {}, found '{}'; write '{{{{' for a brace", i,
              text.substr(i, 20));
      }
      pieces.push_back({true, text.substr(i + 1, close - i - 1)});
      pieces.emplace_back();
      i = close;
    } else {
      pieces.back().text += c;
    }
  }
  std::erase_if(pieces, [](const TemplatePiece& piece) { return piece.text.empty(); });
  return pieces;
}

}  // namespace

TableTemplate::TableTemplate(const TableAskOptions& options,
                             std::map<std::string, std::string> renamed)
    : listed_(!options.columns.empty()) {
  for (auto& [ours, theirs] : renamed) ours_.emplace(theirs, ours);
  if (IsBlankText(options.prompt) || !IsValidUtf8(options.prompt)) {
    Throw(ErrorKind::kUsage, "the prompt: expected a text that is not empty, in UTF-8");
  }
  pieces_ = ParsePrompt(options.prompt);
  for (const std::string& column : options.columns) {
    if (column.empty()) Throw(ErrorKind::kUsage, "--columns: expected names, found an empty one");
    if (std::ranges::find(columns_, column) != columns_.end()) {
      Throw(ErrorKind::kUsage, "--columns: '{}' comes twice", column);
    }
    columns_.push_back(column);
  }
  for (const TemplatePiece& piece : pieces_) {
    if (!piece.is_variable) continue;
    std::vector<std::string>& names = listed_ ? more_fields_ : columns_;
    if (std::ranges::find(columns_, piece.text) == columns_.end() &&
        std::ranges::find(names, piece.text) == names.end()) {
      names.push_back(piece.text);
    }
  }
  if (columns_.empty()) {
    Throw(ErrorKind::kUsage,
          "the prompt names no column: write {{column}} where its text belongs, or give "
          "--columns A,B; found '{}'",
          options.prompt);
  }
  if (columns_.size() > kMostColumns) {
    Throw(ErrorKind::kUsage, "expected at most {} columns in a prompt, found {}", kMostColumns,
          columns_.size());
  }
}

std::vector<std::vector<std::string>> TableTemplate::Needed() const {
  std::vector<std::vector<std::string>> needed;
  for (const std::string& column : columns_) needed.push_back({OurName(column)});
  for (const std::string& field : more_fields_) needed.push_back({OurName(field)});
  return needed;
}

const std::string& TableTemplate::OurName(const std::string& column) const {
  const auto found = ours_.find(column);
  return found == ours_.end() ? column : found->second;
}

std::vector<std::string> TableTemplate::ValuesOf(const Json& row) const {
  std::vector<std::string> values;
  bool all_blank = true;
  const auto add = [&](const std::string& column) {
    const auto found = row.find(OurName(column));
    if (found == row.end()) {
      std::vector<std::string> there;
      for (const auto& item : row.items()) there.push_back(item.key());
      Throw(ErrorKind::kInput, "expected the column '{}', found {}{}", column,
            there.empty() ? "none" : fmt::format("{}", fmt::join(there, ", ")),
            DidYouMeanField(row, column));
    }
    values.push_back(found->is_null() ? "" : TextOrJson(*found));
    all_blank = all_blank && IsBlankText(values.back());
  };
  for (const std::string& column : columns_) add(column);
  if (all_blank) {
    Throw(ErrorKind::kInput, "expected a text in {}, found {}", InBraces(columns_),
          columns_.size() == 1 ? "an empty one" : "empty ones");
  }
  for (const std::string& field : more_fields_) add(field);
  return values;
}

std::string TableTemplate::CellText(size_t column, const std::string& value) const {
  return listed_ ? fmt::format("{}: {}\n", columns_[column], value) : value;
}

TableTemplate::Written TableTemplate::Write(std::span<const std::string> values,
                                            const ColumnOrder& order) const {
  Written written;
  for (const std::uint16_t column : order) {
    if (column >= columns_.size()) continue;  // a further field, which stands in the prompt alone
    written.context += CellText(column, values[column]);
    if (!listed_) written.context += '\n';
  }
  if (!written.context.empty()) written.context.pop_back();
  for (const TemplatePiece& piece : pieces_) {
    if (!piece.is_variable) {
      written.text += piece.text;
      continue;
    }
    const auto column = std::ranges::find(columns_, piece.text);
    const auto field = std::ranges::find(more_fields_, piece.text);
    const size_t place = column != columns_.end()
                             ? static_cast<size_t>(column - columns_.begin())
                             : columns_.size() + static_cast<size_t>(field - more_fields_.begin());
    written.text += values[place];
  }
  return written;
}

}  // namespace banyan
