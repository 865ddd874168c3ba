// How far a job is: the work of its prompts counted, what of it is done, and how long the rest
// takes.
#pragma once

#include <chrono>
#include <cstdint>

#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/request.h"
#include "engine/sharing_forest.h"
#include "tasks/job/time_left.h"

namespace banyan {

struct PromptCount {
  std::int64_t answers = 0;
  std::int64_t prompt_tokens = 0;  // as if every answer, and every expert of one, were alone
  std::int64_t unique_tokens = 0;  // to compute, with sharing
  std::int64_t longest_prompt = 0;
  std::int64_t answer_tokens_limit = 0;  // if no answer ended early

  PromptCount& operator+=(const PromptCount& other);
};

class PromptCounter {
 public:
  // What earlier prompts have is not computed again, as far as they are remembered.
  PromptCount Count(const PromptSegment& root);

 private:
  static constexpr std::int64_t kRememberedTokens = 1 << 19;  // about 4 MB, however long a job is

  void Visit(const PromptSegment& segment, NodeId parent, std::int64_t above, std::uint64_t scope,
             PromptCount& count);

  SharingForest forest_{1, kRememberedTokens};
};

// What was read, asked and answered so far.
struct WorkCount {
  bool reading = true;               // rows may still come
  std::int64_t rows = 0;             // of the input that were read
  std::int64_t position = 0;         // bytes of the input up to the last row read
  std::int64_t skipped_records = 0;  // that an earlier run finished
  std::int64_t skipped_bytes = 0;    // of these in the input
  PromptCount asked;                 // of records that were taken; an error row is an answer
  std::int64_t finished_answers = 0;
  std::int64_t finished_tokens = 0;  // that these answers have
  double finished_squares = 0.0;     // sum of the squares of their lengths
  // Of the first rounds of records alone: those that were taken, and those whose rows are there,
  // beside all that the latter asked.
  PromptCount first_asked, concluded_first, concluded;
  std::int64_t answered_rows = 0;  // of records that were not written yet
};

// Reports progress a few times a second, in the thread that writes.
class ProgressMeter {
 public:
  explicit ProgressMeter(const JobOptions& options);

  // A record was written.
  void AddWritten(std::int64_t records, const PromptCount& prompts, std::int64_t generated);

  struct State {
    WorkCount work;
    Receipt engine;
    std::int64_t total_bytes = -1;          // of the input; -1: unknown
    std::int64_t rows = 0, error_rows = 0;  // written in this run
    bool complete = false;                  // the job did not end early
    bool last = false;                      // the job is over
  };
  bool IsDue(bool last) const;
  void Report(const State& state);

  std::chrono::steady_clock::time_point start() const { return start_; }
  std::int64_t records() const { return progress_.records; }  // written
  // A job that ended early has computed more than its rows are made of; the rows count.
  void CountWritten(JobReceipt& receipt) const;

 private:
  void EstimateRest(const State& state);

  const JobOptions& options_;
  TimeLeft time_left_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_report_;
  JobProgress progress_;
  std::int64_t written_tokens_ = 0;  // generated, of rows that were written
};

}  // namespace banyan
