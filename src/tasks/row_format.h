// How rows look in the output: JSONL, CSV, TSV, or a Markdown table.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/json.h"

namespace banyan {

struct OutputRow {
  nlohmann::ordered_json fields;
  bool error = false;
  std::string identity;  // what makes two answers equal, for the hash

  std::string error_message() const;  // empty: none
};

// The fields of a task's rows that have columns of their own in tables.
struct TableColumns {
  std::vector<std::string> all;    // of CSV and TSV
  std::vector<std::string> shown;  // of a Markdown table, which people read
};

enum class OutputFormat { kJsonLines, kCsv, kTsv, kMarkdown };

// By --output-format, else by the output's name without a packing's ending; standard output,
// devices and names without an ending are JSONL. Throws kUsage for an ending or a format that we do
// not know.
OutputFormat OutputFormatOf(const JobOptions& options);

class RowFormat {
 public:
  RowFormat(const JobOptions& options, TableColumns columns);

  bool is_table() const { return format_ != OutputFormat::kJsonLines; }
  std::string name() const;    // as --output-format has it
  std::string Header() const;  // what a table begins with; empty for JSONL
  std::string Line(const OutputRow& row);
  // Of --columns: those that no row had.
  std::vector<std::string> UnusedColumns() const;

 private:
  std::vector<std::string> ColumnNames() const;
  std::string CsvLine(const OutputRow& row);
  std::string MarkdownLine(const OutputRow& row);

  OutputFormat format_;
  char delimiter_;
  bool csv_safe_;
  std::vector<std::string> wanted_;  // --columns
  TableColumns columns_;
  std::set<std::string> used_;  // of `wanted_`
};

}  // namespace banyan
