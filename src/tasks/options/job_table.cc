#include <cstdio>

#include "tasks/options/option_rows.h"

namespace banyan {
namespace {

using JobRow = Row<JobOptions>;

JobRow Delimiter() {
  return JobRow::Custom(
             "delimiter", OptionKind::kText,
             [](JobOptions& options, const OptionData& data, const std::string& called) {
               const auto& text = std::get<std::string>(data);
               if (!text.empty()) options.delimiter = ParseDelimiter(text, called);
             },
             [](const JobOptions& options) -> std::optional<OptionData> {
               return options.delimiter == 0 ? "" : std::string(1, options.delimiter);
             },
             "Delimiter of CSV: , ; | or tab (default: detected in the header; output tables use "
             "commas)")
      .Doors(kCommandLine | kPython);
}

// "2/8".
JobRow ShardRow() {
  return JobRow::Custom(
             "shard", OptionKind::kText,
             [](JobOptions& options, const OptionData& data, const std::string& called) {
               const auto& text = std::get<std::string>(data);
               int read = 0;
               const bool parsed = std::sscanf(text.c_str(), "%d/%d%n", &options.shard,
                                               &options.shards, &read) == 2 &&
                                   static_cast<size_t>(read) == text.size();
               if (!parsed) options.shard = 0;
               CheckShard(options, text, called);
             },
             [](const JobOptions& options) -> std::optional<OptionData> {
               return std::to_string(options.shard) + "/" + std::to_string(options.shards);
             },
             "i/n: every n-th document, starting with the i-th")
      .HideStandard()
      .WholeInIdentity()
      .Doors(kCommandLine | kPython);
}

void AddInput(OptionTable<JobOptions>& rows) {
  constexpr unsigned kJobDoors = kCommandLine | kPython;
  AddGroup<JobOptions>(
      rows, "Input",
      {JobRow::Word("input_format", &JobOptions::input_format,
                    {"jsonl", "json", "csv", "tsv", "text", "html", "pdf"},
                    "Format of the files (default: by name, otherwise by content)")
           .Doors(kJobDoors),
       Delimiter(),
       JobRow::Text("encoding", &JobOptions::encoding,
                    "Encoding of the input, such as latin-1, windows-1252 or UTF-16 (default: "
                    "UTF-8)")
           .Placeholder("NAME")
           .Doors(kJobDoors)
           .WholeInIdentity()
           .Identity(InIdentity::kUnlessDefault),
       JobRow::Flag("strict", &JobOptions::strict,
                    "Stop at a file or row that cannot be read (default: it becomes an error row, "
                    "and the job continues)")
           .Doors(kJobDoors)});
  AddGroup<JobOptions>(
      rows, "Records",
      {JobRow::Whole("limit", &JobOptions::limit, "Only the first N records of the input")
           .From(0)
           .Unit("records")
           .Doors(kJobDoors),
       ShardRow(),
       JobRow::Whole("max_errors", &JobOptions::max_errors,
                     "Stop after more error rows than this (default: never)")
           .From(0)
           .Unit("rows")
           .Doors(kJobDoors)});
}

}  // namespace

const OptionTable<JobOptions>& JobTable() {
  static const OptionTable<JobOptions> table = [] {
    constexpr unsigned kJobDoors = kCommandLine | kPython;
    OptionTable<JobOptions> rows;
    AddInput(rows);
    AddGroup<JobOptions>(
        rows, "Output",
        {JobRow::Text("output", &JobOptions::output,
                      "The output file: .jsonl, .csv, .tsv or .md (a Markdown table), with .gz or "
                      ".zst to compress it; - for standard output")
             .Called("-o,--output")
             .Placeholder("FILE")
             .ShowStandard()
             .Doors(kJobDoors),
         JobRow::Word("output_format", &JobOptions::output_format, {"jsonl", "csv", "tsv", "md"},
                      "Format of the output, whatever its name")
             .Doors(kJobDoors),
         JobRow::Texts("columns", &JobOptions::columns,
                       "Tables: fields with their own column, separated by commas; all others are "
                       "JSON in the column 'more'")
             .Delimiter(',')
             .Doors(kJobDoors),
         JobRow::Flag("csv_safe", &JobOptions::csv_safe,
                      "CSV: put an apostrophe before cells that a spreadsheet would interpret as "
                      "formulas")
             .Doors(kJobDoors),
         JobRow::Flag("ordered", &JobOptions::ordered, "Write rows in input order")
             .Doors(kJobDoors),
         JobRow::Flag("resume", &JobOptions::resume,
                      "Continue an interrupted job (needs OUTPUT.journal)")
             .Doors(kJobDoors),
         JobRow::Flag("retry_errors", &JobOptions::retry_errors,
                      "With --resume: ask failed records again and replace their error rows")
             .Doors(kJobDoors),
         JobRow::Flag("overwrite", &JobOptions::overwrite,
                      "Replace OUTPUT and the receipt; with --resume: keep the job's own rows and "
                      "write the rest again")
             .Doors(kJobDoors),
         JobRow::Number("checkpoint", &JobOptions::checkpoint_seconds,
                        "Maximum seconds of work that an interruption may cost")
             .From(0)
             .Unit("seconds")
             .Doors(kJobDoors),
         JobRow::Text("receipt", &JobOptions::receipt, "Write the receipt as JSON to this file")
             .Placeholder("FILE")
             .Doors(kCommandLine)});
    return rows;
  }();
  return table;
}

}  // namespace banyan
