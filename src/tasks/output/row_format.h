// How rows look in the output: JSONL, CSV, TSV, a Markdown table, or text for a terminal.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "base/json.h"

namespace banyan {

struct OutputRow {
  nlohmann::ordered_json fields;
  bool error = false;
  bool dropped = false;  // not written: its record is done and has no row
  std::string identity;  // what makes two answers equal, for the hash
  // The row of the input's table that it answers, under the table's own names; null: of no table.
  std::shared_ptr<const Json> given;

  std::string error_message() const;  // empty: none
};

// A column of the input's table, which comes out again.
struct InputColumn {
  std::string name;       // in the input
  std::string shown;      // in the output: another one where the task has a column of that name
  bool is_field = false;  // it is a field of the task's rows, such as their id
};

// The fields of a task's rows that have columns of their own in tables. "confidence.brand" is the
// field `brand` of the field `confidence`.
struct TableColumns {
  std::vector<std::string> all;         // of CSV and TSV, what people look at first
  std::vector<std::string> shown;       // of a Markdown table, which people read
  std::vector<InputColumn> input = {};  // of CSV and TSV, before the others
  char delimiter = 0;                   // of the input's tables; 0: they have none, or several
};

// How the columns of the input come out beside those of the task. `renamed`: our names of fields
// that the input calls otherwise.
std::vector<InputColumn> BesideTask(const std::vector<std::string>& input, const std::string& task,
                                    const TableColumns& columns,
                                    const std::map<std::string, std::string>& renamed);

enum class OutputFormat { kJsonLines, kCsv, kTsv, kMarkdown, kText };

// By --output-format, else by the output's name without a packing's ending; standard output,
// devices and names without an ending are JSONL. Throws kUsage for an ending or a format that we do
// not know.
OutputFormat OutputFormatOf(const JobOptions& options);

class RowFormat {
 public:
  RowFormat(const JobOptions& options, TableColumns columns);

  bool is_table() const {
    return format_ != OutputFormat::kJsonLines && format_ != OutputFormat::kText;
  }
  const std::vector<InputColumn>& input_columns() const { return columns_.input; }
  std::string name() const;  // as --output-format has it
  char delimiter() const { return delimiter_; }
  std::string Header() const;  // what a table begins with; empty for JSONL
  std::string Line(const OutputRow& row);
  static std::string JsonLine(const OutputRow& row);
  // Of --columns: those that no row had.
  std::vector<std::string> UnusedColumns() const;

 private:
  std::vector<std::string> ColumnNames() const;
  std::string CsvLine(const OutputRow& row);
  std::string MarkdownLine(const OutputRow& row);
  std::string TextLines(const OutputRow& row) const;

  OutputFormat format_;
  char delimiter_;
  bool csv_safe_;
  std::vector<std::string> wanted_;  // --columns
  TableColumns columns_;
  std::set<std::string> used_;  // of `wanted_`
};

// --- Numbers of rows

// Of the log-probabilities of an answer's tokens.
double SumOf(const std::vector<float>& values);
double MeanOf(const std::vector<float>& values);  // of none: 0

// The decimals that read back as the same float32; JSON has no infinities.
Json RowNumber(double value);
Json RowNumbers(const std::vector<float>& values);
// Four decimals: more than a probability that was fitted means.
Json RowProbability(double value);

}  // namespace banyan
