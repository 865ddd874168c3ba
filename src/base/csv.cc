// Reading and writing CSV rows.
#include "base/csv.h"

#include <fmt/format.h>

#include <utility>

namespace banyan {

bool CsvReader::Next(std::vector<std::string>& fields) {
  if (at_file_start_) {
    at_file_start_ = false;
    // A byte order mark, or the beginning of a field that starts with the same byte.
    if (reader_.Peek() == 0xEF) {
      std::string mark;
      while (mark.size() < 3 && reader_.Peek() >= 0x80) {
        mark += static_cast<char>(reader_.Get());
      }
      if (mark != "\xEF\xBB\xBF") pending_ = mark;
    }
  }
  while (pending_.empty() && (reader_.Peek() == '\n' || reader_.Peek() == '\r')) {
    if (reader_.Get() == '\n') ++line_;
  }
  fields.clear();
  problem_.clear();
  row_bytes_ = 0;
  row_line_ = line_;
  if (pending_.empty() && reader_.Peek() < 0) return false;
  bool row_ends = false;
  while (!row_ends) {
    std::string field = std::exchange(pending_, {});
    ReadField(field, row_ends);
    // A row of nothing but commas must not grow without bound either.
    row_bytes_ += sizeof(std::string);
    if (row_bytes_ <= max_row_bytes_) fields.push_back(std::move(field));
  }
  if (row_bytes_ > max_row_bytes_) {
    fields.clear();
    problem_ = fmt::format("the row is longer than {} bytes", max_row_bytes_);
  }
  return true;
}

void CsvReader::Append(std::string& field, int c) {
  if (++row_bytes_ <= max_row_bytes_) field += static_cast<char>(c);
}

// Takes the field and the comma or line end after it.
void CsvReader::ReadField(std::string& field, bool& row_ends) {
  if (field.empty() && reader_.Peek() == '"') {
    reader_.Get();
    ReadQuoted(field);
  }
  while (true) {
    const int c = reader_.Get();
    if (c == delimiter_) return;
    if (c == '\r' && reader_.Peek() == '\n') continue;
    if (c == '\n' || c < 0) {
      if (c == '\n') ++line_;
      row_ends = true;
      return;
    }
    Append(field, c);
  }
}

// After the opening quote: everything to the closing one.
void CsvReader::ReadQuoted(std::string& field) {
  while (true) {
    const int c = reader_.Get();
    if (c < 0) {
      problem_ = "a quoted field is not closed before the end of the file";
      return;
    }
    if (c == '\n') ++line_;
    if (c == '"') {
      if (reader_.Peek() != '"') {
        const int next = reader_.Peek();
        if (next >= 0 && next != delimiter_ && next != '\n' && next != '\r') {
          problem_ = fmt::format("expected {} or the line's end after a closing quote",
                                 delimiter_ == ',' ? "a comma" : "the delimiter");
        }
        return;
      }
      reader_.Get();
    }
    Append(field, c);
  }
}

std::string CsvRow(std::span<const std::string> fields, char delimiter) {
  std::string row;
  for (size_t i = 0; i < fields.size(); ++i) {
    const std::string& field = fields[i];
    if (i > 0) row += delimiter;
    const bool quote = field.find_first_of("\"\r\n") != std::string::npos ||
                       field.find(delimiter) != std::string::npos || field.starts_with(' ') ||
                       field.ends_with(' ') || (field.empty() && fields.size() == 1);
    if (!quote) {
      row += field;
      continue;
    }
    row += '"';
    for (const char c : field) {
      if (c == '"') row += '"';
      row += c;
    }
    row += '"';
  }
  return row + "\n";
}

namespace {

// Calls `visit` for every character of the first row outside quotes; false: the row does not end.
template <typename Visit>
bool VisitFirstRow(std::string_view head, const Visit& visit) {
  bool quoted = false;
  bool begun = false;  // empty lines before the first row are skipped
  for (const char c : head) {
    if (c == '"') quoted = !quoted;
    if (!quoted && c == '\n' && begun) return true;
    begun |= c != '\n' && c != '\r';
    if (!quoted) visit(c);
  }
  return false;
}

}  // namespace

bool HasWholeCsvRow(std::string_view head) {
  return VisitFirstRow(head, [](char) {});
}

char CsvDelimiterOf(std::string_view head) {
  int commas = 0, semicolons = 0, tabs = 0;
  VisitFirstRow(head, [&](char c) {
    commas += c == ',' ? 1 : 0;
    semicolons += c == ';' ? 1 : 0;
    tabs += c == '\t' ? 1 : 0;
  });
  if (semicolons > commas && semicolons >= tabs) return ';';
  return tabs > commas ? '\t' : ',';
}

}  // namespace banyan
