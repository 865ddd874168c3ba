// CSV as RFC 4180 writes it: fields between commas (or another delimiter), in double quotes where
// they hold delimiters, quotes or line ends; a quote inside quotes is doubled.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.h"

namespace banyan {

class CsvReader {
 public:
  CsvReader(std::unique_ptr<ByteSource> source, size_t max_row_bytes, char delimiter = ',')
      : reader_(std::move(source)), max_row_bytes_(max_row_bytes), delimiter_(delimiter) {}

  // The next row's fields. Rows without any character are skipped. False at the end. Throws what
  // the source throws.
  bool Next(std::vector<std::string>& fields);
  // What is wrong with the last row; empty when nothing is. The next row is read as usual.
  const std::string& problem() const { return problem_; }
  std::int64_t line() const { return row_line_; }  // where the last row begins, from 1
  std::int64_t position() const { return reader_.position(); }

 private:
  void ReadField(std::string& field, bool& row_ends);
  void ReadQuoted(std::string& field);
  void Append(std::string& field, int c);

  CharacterReader reader_;
  size_t max_row_bytes_;
  char delimiter_;
  size_t row_bytes_ = 0;
  std::int64_t line_ = 1, row_line_ = 1;
  bool at_file_start_ = true;
  std::string pending_;  // bytes that looked like a byte order mark and were none
  std::string problem_;
};

// One row with its line end. Fields are quoted only where they must be.
std::string CsvRow(std::span<const std::string> fields, char delimiter = ',');

// The first row of `head` is whole: its line end, outside quotes, is there.
bool HasWholeCsvRow(std::string_view head);
// What stands between the fields of the first row: the comma, the semicolon or the tab, whichever
// it has most of outside quotes; the comma when it has none.
char CsvDelimiterOf(std::string_view head);

}  // namespace banyan
