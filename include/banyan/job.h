// A job: rows in, rows out, for every task. It can be stopped at any moment, by a signal, a full
// disk or a power cut, and taken up again without losing or repeating a row.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/engine.h"

namespace banyan {

// How far a job is. Counts are of this run, not of what an earlier one left.
struct JobProgress {
  double seconds = 0.0;
  double fraction = -1.0;          // of all answers, as far as is known; -1: unknown (a pipe)
  double seconds_left = -1.0;      // by the tokens still to be computed; -1: unknown
  std::int64_t records = 0;        // finished
  std::int64_t rows = 0;           // written
  std::int64_t error_rows = 0;     // among them
  std::int64_t skipped = 0;        // records that an earlier run had finished
  std::int64_t prompt_tokens = 0;  // of finished records, as if every answer were asked alone
  std::int64_t saved_tokens = 0;   // of these, by sharing
  std::int64_t generated_tokens = 0;
  bool last = false;  // the job is over
};

struct JobOptions {
  std::vector<std::string> inputs;  // files, folders, patterns such as data/*.jsonl.gz, or "-"
  // jsonl, csv, tsv, text, html or pdf; empty: by each file's name, else by how it begins.
  std::string input_format;
  std::map<std::string, std::string> fields;  // our name of a field → the input's name of it
  std::string document_field = "context";  // what the text of a file that is a document is called
  std::string output = "-";                // .gz and .zst are packed
  std::string output_format;               // jsonl, csv, tsv or md; empty: by name, else jsonl
  std::vector<std::string> columns;        // of tables: fields that get a column of their own
  // Between the cells of CSV: , ; | or a tab; 0: in the input what its header has, else a comma.
  char delimiter = 0;
  // Columns that a CSV file must have, by our names: one of each list.
  std::vector<std::vector<std::string>> needed_columns;
  bool csv_safe = false;  // CSV: no cell is a formula to a spreadsheet (an apostrophe before it)
  // What else the job reads, as (what it is, path): never written to.
  std::vector<std::pair<std::string, std::string>> other_files;
  std::string receipt;  // where the caller will write the receipt; empty: nowhere

  bool ordered = false;       // rows in the order of the input
  bool resume = false;        // go on where OUTPUT.journal ends
  bool retry_errors = false;  // with resume: records that ended in an error row are asked again
  // Begin anew whatever OUTPUT holds; with resume: keep what is ours, write over the rest.
  bool overwrite = false;
  double checkpoint_seconds = 1.0;  // at most so much work is repeated after an interruption

  std::int64_t limit = -1;       // records of the input, before sharding; -1: all
  int shard = 1, shards = 1;     // take records shard, shard + shards, … (from 1)
  std::int64_t max_errors = -1;  // more error rows than this stop the job; -1: never

  std::function<void(const JobProgress&)> progress;  // called a few times a second, may be empty
  std::function<void(const std::string&)> explain;   // hears once how the first steps are done
  std::function<void(const std::string&)> notice;  // hears what a person should know; may be empty
  // Asked some hundred times a second: true ends the job. What is under way is left for another
  // run.
  std::function<bool()> stop;
};

enum class JobEnd { kComplete, kStopped, kTooManyErrors };

// What a job did. Token counts and times are of this run; rows, error_rows and answers_hash are of
// the whole output, earlier runs included.
struct JobReceipt {
  std::string task;
  JobEnd end = JobEnd::kComplete;
  std::string model, backend, precision, strategy, fingerprint;
  std::string output;
  std::int64_t records = 0, skipped = 0, not_in_input = 0;
  std::int64_t rows = 0, error_rows = 0;
  std::int64_t rows_this_run = 0, error_rows_this_run = 0;
  Receipt engine;
  std::string first_error;         // the message of this run's first error row
  std::int64_t shared_tokens = 0;  // prompt tokens that sharing saved
  double seconds = 0.0;            // without loading the model
  double load_seconds = 0.0;       // set by the caller
  double input_seconds = 0.0;      // prompts, tokenisation and rows, of all threads that do so
  double output_seconds = 0.0;     // writing, syncing
  std::int64_t weight_bytes = 0;
  std::int64_t memory_bytes_peak = 0;  // of the process
  std::string answers_hash;            // equal for equal answers in any order

  std::string ToText() const;  // several lines for a person
  std::string ToJson() const;  // one line
};

// What a job would do, from reading its whole input.
struct JobEstimate {
  std::int64_t records = 0, rows = 0, error_rows = 0, too_long = 0;
  std::int64_t prompt_tokens = 0;  // as if every answer were asked alone
  std::int64_t unique_tokens = 0;  // with sharing
  std::int64_t longest_prompt = 0;
  std::int64_t answer_tokens_limit = 0;  // if no answer ended early
  double calibration_seconds = 0.0;      // spent on answering the first records
  std::int64_t calibration_rows = 0;
  double tokens_per_answer = 0.0;                      // measured there
  double rows_per_second = 0.0;                        // forward-pass rows, measured there
  double expected_seconds = 0.0, limit_seconds = 0.0;  // as measured; with every answer full length
  std::int64_t weight_bytes = 0, kv_bytes = 0;

  std::string ToText() const;
  std::string ToJson() const;
};

// All inputs are text, HTML or PDF: documents without questions of their own. Throws as CheckJob.
bool AllAreDocuments(const JobOptions& options);

// Patterns expanded and sorted, every input there, the output's directory writable, nothing written
// to that is read or is somebody else's, options that fit together: what can be refused before a
// model is loaded. Throws kUsage, kNotFound, kIo.
void CheckJob(const JobOptions& options);

}  // namespace banyan
