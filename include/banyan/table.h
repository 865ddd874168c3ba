// Tables: one prompt made of columns for every row. What `banyan map`, `filter`, `rank` and `group`
// run.
#pragma once

#include <string>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"

namespace banyan {

enum class TableOperator { kMap, kFilter, kRank, kGroup };
// given: columns and rows as they are. auto: so that prompts share most tokens; rows still come out
// in the input's order.
enum class TableOrder { kGiven, kAuto };

inline constexpr size_t kMostColumns = 256;

struct TableAskOptions {
  TableOperator op = TableOperator::kMap;
  // The prompt; {column} is replaced by what a row has there, {{ and }} are braces. Of a filter,
  // and of a ranking without labels: a statement that is true or not.
  std::string prompt;
  // These columns stand before the prompt, each on a line with its name. They may be reordered.
  std::vector<std::string> columns;
  TableOrder order = TableOrder::kGiven;
  // map, group: the answer is one of them. rank: numbers, whose expected value is the score.
  std::vector<std::string> labels;
  bool all = false;        // filter: rows that are not kept come out too
  double threshold = 0.5;  // filter: of the probability that the statement is true
  std::int64_t top = 0;    // rank: only so many rows; 0: all
  // rank: rows are compared, two in a prompt, instead of ordered by their scores. Every pair is
  // asked in both orders; about n log2(n) of them for n rows.
  bool pairwise = false;
  // filter by two models: which share of the rows that it is true of is kept, and of the kept rows
  // is right, with this confidence; 0: nothing is promised of it.
  double recall = 0.0, precision = 0.0, confidence = 0.95;
  std::int64_t sample = 1000;  // rows that the large model labels for it
  // Or: the column that says it of the rows of a random sample. Without a recall and a precision,
  // of filter and of map with labels: by these rows probabilities are calibrated.
  std::string label;
  AskOptions ask;  // how it is asked; no questions and no template of its own
};

// The columns that the prompt is made of. Throws as CheckTable.
std::vector<std::string> TableColumnsOf(const TableAskOptions& table);

// The columns that tables need to have, for JobOptions::needed_columns; `fields` as in JobOptions.
std::vector<std::vector<std::string>> NeededColumns(const TableAskOptions& table,
                                                    const JobOptions& job);

// Throws kUsage for what can be refused of the options before a model is loaded.
void CheckTable(const EngineOptions& engine_options, const TableAskOptions& table,
                const JobOptions& job);

// Reads the whole table first, then asks each different prompt once. Equal prompts are asked once;
// every row gets its answer. Rows come in the input's order. rank and group keep the rows that they
// are made of in OUTPUT.rows.jsonl, comparisons in OUTPUT.pairs.jsonl, by which they are resumed.
JobReceipt RunTable(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                    const TableAskOptions& table, const JobOptions& job);

// A filter that promises: `small` decides where a labelled sample shows that it may, `large` the
// rest. What both say is kept in OUTPUT.small.jsonl and OUTPUT.large.jsonl, by which it is resumed.
// Throws kInput where the sample does not allow the promise.
JobReceipt RunPromisedFilter(std::shared_ptr<Model> small, std::shared_ptr<Model> large,
                             const EngineOptions& engine_options, const TableAskOptions& table,
                             const JobOptions& job);

JobEstimate EstimateTable(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                          const TableAskOptions& table, const JobOptions& job);

// As ShowPrompts.
std::string ShowTablePrompts(std::shared_ptr<Model> model, const TableAskOptions& table,
                             const JobOptions& job);

}  // namespace banyan
