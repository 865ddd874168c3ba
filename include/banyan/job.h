// A job: rows in, rows out, for every task. It can be interrupted at any moment, by a signal, a
// full disk or a power cut, and resumed without losing or repeating a row.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/engine.h"

namespace banyan {

// The progress of a job. Counts cover this run, not earlier ones.
struct JobProgress {
  double seconds = 0.0;
  double fraction = -1.0;       // of all answers, as far as is known; -1: unknown (a pipe)
  double seconds_left = -1.0;   // by the tokens still to be computed; -1: unknown
  std::int64_t records = 0;     // finished
  std::int64_t rows = 0;        // written
  std::int64_t error_rows = 0;  // among them
  // Questions that have their answers, or documents their values: rows that were written, and those
  // of records that are not whole yet.
  std::int64_t answered = 0;
  std::int64_t skipped = 0;        // records that an earlier run had finished
  std::int64_t prompt_tokens = 0;  // of finished records, as if every answer were asked alone
  std::int64_t saved_tokens = 0;   // of these, by sharing
  std::int64_t generated_tokens = 0;
  bool last = false;  // the job is over
};

// The field of rows that a program wrote out for a job and could not write whole, see
// JobOptions::problem_field.
inline constexpr const char* kProblemField = "banyan:problem";
// JobOptions::id_column where rows are known by their lines, whatever columns there are.
inline constexpr const char* kIdIsLine = "line";
// How files whose name or path matches a pattern, as a shell has it, call one of our fields.
struct FileField {
  std::string pattern, ours, theirs;
};

struct JobOptions {
  std::vector<std::string> inputs;  // files, folders, patterns such as data/*.jsonl.gz, or "-"
  // jsonl, json, csv, tsv, text, html or pdf; empty: by each file's name, else by how it begins.
  std::string input_format;
  std::map<std::string, std::string> fields;  // our name of a field → the input's name of it
  // The field `id` of the input: its name there. Empty: `id`; in a table without that column, the
  // one whose values are all different and whose name says id, number or key. kIdIsLine: none.
  std::string id_column;
  // Files that stand for something else (a table that was written out): what rows say instead.
  std::map<std::string, std::string> input_names;
  // A field whose text says why a row cannot be asked, written by who made the input; empty: none.
  std::string problem_field;
  std::vector<FileField> file_fields;      // these count more; of two that match, the later one
  std::string encoding;                    // of the input's text; empty: UTF-8
  std::string document_field = "context";  // what the text of a file that is a document is called
  // What rows may call it instead, where `fields` does not say; empty: nothing.
  std::string other_document_field = "text";
  std::string output = "-";          // .gz and .zst are compressed
  std::string output_format;         // jsonl, csv, tsv or md; empty: by name, else jsonl
  std::vector<std::string> columns;  // of tables: fields that get a column of their own
  // Between the cells of CSV: , ; | or a tab; 0: in the input what its header has, in the output
  // what all tables of the input have, else a comma.
  char delimiter = 0;
  // Columns that a CSV file must have, by our names: one of each list.
  std::vector<std::vector<std::string>> needed_columns;
  bool csv_safe = false;  // CSV: no cell is a formula to a spreadsheet (an apostrophe before it)
  // Other files that the job reads, as (what it is, path); never written to.
  std::vector<std::pair<std::string, std::string>> other_files;
  // A file of the caller's own that gets this run's rows as JSONL, whatever form the output's have;
  // empty: none.
  std::string rows_copy;
  std::string receipt;  // where the caller will write the receipt; empty: nowhere
  // What else the caller will write, as (option, path). These files and the receipt are guarded as
  // the output is, and written only where JobReceipt::MayWrite says so.
  std::vector<std::pair<std::string, std::string>> side_outputs;

  bool ordered = false;       // rows in the order of the input
  bool resume = false;        // continue after OUTPUT.journal
  bool retry_errors = false;  // with resume: records that ended in an error row are asked again
  // Replace OUTPUT; with resume: keep the job's own rows, overwrite the rest.
  bool overwrite = false;
  double checkpoint_seconds = 1.0;  // at most so much work is repeated after an interruption

  std::int64_t limit = -1;    // records of the input, before sharding; -1: all
  int shard = 1, shards = 1;  // take records shard, shard + shards, … (from 1)
  // An unreadable file or row stops the job; otherwise it becomes an error row.
  bool strict = false;
  std::int64_t max_errors = -1;  // more error rows than this stop the job; -1: never

  std::function<void(const JobProgress&)> progress;  // called a few times a second, may be empty
  std::function<void(const std::string&)> explain;   // hears once how the first steps are done
  std::function<void(const std::string&)> notice;  // hears what a person should know; may be empty
  // Called some hundred times a second: true ends the job. Unfinished records are left for another
  // run.
  std::function<bool()> stop;
};

enum class JobEnd { kComplete, kStopped, kTooManyErrors, kUnreadable };

// The receipt of a job. Token counts and times cover this run; rows, error_rows and answers_hash
// cover the whole output, including earlier runs.
struct JobReceipt {
  std::string task;
  JobEnd end = JobEnd::kComplete;
  std::string model, backend, precision, strategy, fingerprint;
  std::string adapter;  // merged; set by the caller, as `model` is; empty: none
  std::string output;
  std::int64_t records = 0, skipped = 0;
  std::int64_t not_in_input = 0;  // of earlier runs; with rows_removed > 0 their rows are gone too
  std::int64_t rows_removed = 0;
  std::int64_t rows = 0, error_rows = 0;
  std::int64_t dropped = 0;        // records of a filter that did not keep their rows
  std::int64_t equal_prompts = 0;  // rows of a table whose prompt an earlier row has: asked once
  std::string promise;             // of a filter by two models: what it promises, and who decided
  std::string calibration;         // of probabilities, by labelled rows; empty: none
  // rank by pairs: pairs of rows that were compared, each in both orders; of them, those with the
  // same winner in both; and rounds.
  std::int64_t comparisons = 0, comparisons_agreed = 0, comparison_rounds = 0;
  std::int64_t rows_this_run = 0, error_rows_this_run = 0;
  // An earlier run had done all of this job: nothing was asked and nothing written.
  bool finished_before = false;
  Receipt engine;
  std::string first_error;          // the message of this run's first error row
  std::int64_t unread_inputs = 0;   // files and folders of which not all could be read
  std::vector<std::string> unread;  // the first 20 of these: their names, and why
  std::string stopped_at;           // kUnreadable: where, and why
  std::int64_t shared_tokens = 0;   // prompt tokens that sharing saved
  // Tokens computed for rows that were not written because the job ended early; counted only here.
  std::int64_t unwritten_tokens = 0;
  double seconds = 0.0;         // without loading the model
  double load_seconds = 0.0;    // set by the caller
  double input_seconds = 0.0;   // prompts, tokenisation and rows, of all threads that do so
  double output_seconds = 0.0;  // writing, syncing
  std::int64_t weight_bytes = 0;
  std::int64_t memory_bytes_peak = 0;  // of the process
  std::string answers_hash;            // equal for equal answers in any order

  // False for a receipt, report or other side output of a job that was finished before and left it.
  bool MayWrite(const std::string& side_output) const;

  std::string ToLine() const;  // what was done and how long it took, for a person
  std::string ToText() const;  // several lines with all that is known
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
  std::vector<DeviceShare> devices;  // and their memory: each gets as much work as it can do
  // rank by pairs: expected; and at most, whatever they say. Tokens and times are with them.
  std::int64_t comparisons = 0, comparison_rounds = 0, most_comparisons = 0;
  // For other numbers of devices and for shards: `expected_seconds`, scaled by a model of costs.
  std::vector<DevicesPrediction> predictions;

  std::string ToText() const;
  std::string ToJson() const;
};

// All inputs are text, HTML or PDF: documents without questions of their own. Throws as CheckJob.
bool AllAreDocuments(const JobOptions& options);

// Checks everything that can be refused before a model is loaded: expands and sorts patterns, every
// input exists, the output's directory is writable, no input and no foreign file is written to,
// inputs are readable (at least one; all if strict), options are consistent. Throws kUsage,
// kNotFound, kIo.
void CheckJob(const JobOptions& options);

}  // namespace banyan
