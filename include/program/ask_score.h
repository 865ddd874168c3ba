// How good answers are: rows of `banyan ask` against rows that say what is right.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/calibration.h"

namespace banyan {

struct AskScore {
  struct Interval {
    double low = 0.0, high = 0.0;
  };
  std::string name;  // of the run
  std::int64_t documents = 0, questions = 0;
  std::int64_t missing = 0, errors = 0;  // without a row, with an error row: these count as wrong
  double exact = 0.0, f1 = 0.0;          // SQuAD's, of all questions
  Interval exact_interval, f1_interval;  // 95 % of resamples of the documents
  std::int64_t known = 0, unknown = 0;   // questions with and without an answer
  double known_f1 = 0.0;                 // of those with an answer
  double denied = 0.0;                   // the share of them that is null
  double null_right = 0.0;               // of those without one: the share that is null
  // Of rows that have a confidence and are no errors; withheld answers are not among them.
  std::vector<ConfidencePoint> confidences;
};

// `gold`: JSONL of {"id","questions":[{"id","answers":[…]}]}, or of
// {"id","question_id"?,"answers"}; no answers: null is right. A question with "choices" may have
// the number of the "right" one instead. Questions without an id have their place as `ask` gives
// it, from 1. Throws kInput for a file that cannot be read, with its line.
AskScore ScoreAsk(const std::string& gold, const std::string& output, int resamples = 1000);
// What null to every question scores.
AskScore ScoreOfAskNull(const std::string& gold, int resamples = 1000);

std::string AskScoresText(const std::vector<AskScore>& scores);  // a table
std::string AskScoresJson(const std::vector<AskScore>& scores);  // one line each

}  // namespace banyan
