// How good answers and values are, against gold rows: what `banyan eval` prints. Calibration, then
// scores of ask, extract and rag.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace banyan {

// --- Calibration: of the values with confidence 0.8, are 80 % right?

struct ConfidencePoint {
  double confidence = 0.0;  // a probability
  bool right = false;
};

// Values of similar confidence.
struct ReliabilityBin {
  std::int64_t count = 0;
  double low = 0.0, high = 0.0;  // the least and the greatest confidence
  double confidence = 0.0;       // their mean
  double accuracy = 0.0;         // the share of them that is right
};

struct Reliability {
  std::int64_t count = 0;
  // Expected calibration error: |confidence − accuracy| of the bins, weighted by their counts.
  double expected_error = 0.0;
  double brier = 0.0;                // the mean of (confidence − right)²
  std::vector<ReliabilityBin> bins;  // by confidence, ascending
};

// Bins have the same count, give or take one; fewer than `bins` where there are fewer points.
Reliability Calibrate(std::vector<ConfidencePoint> points, int bins = 10);

std::string CalibrationText(const Reliability& calibration);  // a table
// A reliability diagram, without scripts or fonts of its own.
std::string ReliabilitySvg(const Reliability& calibration, const std::string& title);

// --- ask

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

// --- extract

// What became of a slot (an attribute of a document).
enum class SlotOutcome {
  kCorrect,
  kCorrectNull,   // null, and nothing is right
  kIncorrect,     // another value than the right one
  kMissing,       // null, or no row, where there is a right value
  kHallucinated,  // a value where null is right
};

// Counts of slots, and the scores that follow from them. A score whose denominator is 0 is 0.
struct SlotCounts {
  std::int64_t correct = 0, correct_null = 0, incorrect = 0, missing = 0, hallucinated = 0;
  double credit = 0.0;  // correct, plus the shares in [0, 1] of incorrect values that overlap

  // `share`: of the right value that an incorrect one has.
  void Add(SlotOutcome outcome, double share = 0.0);
  SlotCounts& operator+=(const SlotCounts& other);

  std::int64_t right() const { return correct + correct_null; }
  std::int64_t slots() const { return right() + incorrect + missing + hallucinated; }
  double accuracy() const;  // right / slots

  // With nulls: a null is a value like any other.
  double precision() const;  // right / (right + hallucinated + incorrect)
  double recall() const;     // right / (right + missing + incorrect)
  double f1() const;

  // Strict: correct nulls do not count, so that writing null everywhere scores 0.
  double strict_precision() const;  // correct / (correct + incorrect + hallucinated)
  double strict_recall() const;     // correct / (correct + incorrect + missing)
  double strict_f1() const;
  double partial_f1() const;  // the same with `credit` instead of `correct`
};

// The slots of one document, as resamples need them.
struct DocumentCounts {
  SlotCounts all, labelled;
};

struct ExtractScores {
  SlotCounts all;                          // every slot that counts
  SlotCounts labelled;                     // of these, those that the gold rows name
  SlotCounts all_null, all_null_labelled;  // of a run that writes null everywhere: the baseline
  std::map<std::string, SlotCounts> by_attribute, by_category, by_type;
  std::int64_t documents = 0;    // that say what is right
  std::int64_t without_row = 0;  // of these, those without a row: all their values are missing
  std::int64_t unlabelled = 0;   // slots that were left out, because nothing says what is right
  std::map<std::pair<std::string, std::string>, SlotOutcome> slots;  // by id (JSON) and attribute
  std::vector<DocumentCounts> by_document;                           // in the order of the ids
  // `confidence` of the rows, where these are probabilities.
  std::vector<ConfidencePoint> confidences;
  bool log_probabilities = false;  // they are log-probabilities: nothing to calibrate
  std::optional<double> documents_per_second;
};

struct ExtractScoreOptions {
  // JSONL of {"id","values":{…},"category"?}. A list is what a list attribute is to have; of
  // another attribute, any of its texts is right.
  std::string gold;
  std::string output;               // what `extract` wrote, as JSONL
  bool unlabelled_is_null = false;  // attributes that the gold row does not name: null is right
  std::string schema;               // the text of a schema: types of attributes; empty: guessed
  std::string schema_name;          // what messages call it
};

// Texts are compared as SQuAD does: without case, articles, punctuation and extra space; numbers by
// value (12 is 12.0); dates, booleans and enum values exactly; lists as sets. Types are those of
// the schema, else those that the right values have. Throws kNotFound, kInput, kUsage.
ExtractScores ScoreExtract(const ExtractScoreOptions& options);

// Documents per second by the receipt beside `output` (`--receipt OUTPUT.receipt.json`), if there
// is one. Throws kFormat for a file that is no receipt.
std::optional<double> SpeedFromReceipt(const std::string& output);

// The middle 95 % of what resamples of the documents score.
struct ScoreInterval {
  double low = 0.0, high = 0.0;
};
struct ScoreIntervals {
  ScoreInterval strict_f1, partial_f1, labelled_f1, f1, accuracy;
};
// Documents are drawn with replacement, as many as there are, `resamples` times, always the same
// ones. REQUIRES: resamples > 0.
ScoreIntervals BootstrapIntervals(const std::vector<DocumentCounts>& documents, int resamples);
// Of the difference in strict F1, one − other, over the same draws. REQUIRES: as many documents in
// both, in the same order.
ScoreInterval BootstrapDifference(const std::vector<DocumentCounts>& one,
                                  const std::vector<DocumentCounts>& other, int resamples);

struct ScoredRun {
  std::string name;
  ExtractScores scores;
};
struct ScoreTableOptions {
  std::string rule;      // what becomes of unlabelled slots, for people
  int resamples = 1000;  // 0: no intervals
};

// For people. RunsText: a row for every run, and one for null everywhere; with several runs, how
// each differs from the first. DetailText: of one run, all, types, categories and attributes.
// CompareText: two runs attribute by attribute, and the slots that only one has right.
std::string RunsText(const std::vector<ScoredRun>& runs, const ScoreTableOptions& options);
std::string DetailText(const ExtractScores& scores);
std::string CompareText(const ExtractScores& one, const ExtractScores& other);
// For programs, one line: {"documents","all":{…},…}; or of several {"runs":[{"name",…},…]}.
std::string ScoreJson(const ExtractScores& scores, const ScoreTableOptions& options);
std::string RunsJson(const std::vector<ScoredRun>& runs, const ScoreTableOptions& options);

// --- rag

// Means over the questions of the gold file. Texts are compared in lower case without articles,
// punctuation and extra space; the best of the gold answers counts; a question without any is
// unanswerable, and `null` is right.
struct RagScore {
  // Where the mean of other questions of this kind would lie in 95 of 100 cases: a bootstrap of
  // 2000 draws with a fixed seed.
  struct Interval {
    double low = 0.0, high = 0.0;
  };
  std::string file, method;  // of the rows; or a variant's name and its method
  std::int64_t questions = 0;
  std::int64_t missing = 0, errors = 0;  // without a row, with an error row: these count as wrong
  double sub_span = 0.0;                 // a gold answer stands in the answer
  double exact = 0.0, f1 = 0.0;
  Interval sub_span_interval, exact_interval, f1_interval;
  double null = 0.0;     // answered null
  double foreign = 0.0;  // answered with what stands in none of the gold file's documents
  // Gold documents among those that were read, and among those cited; of questions that have some.
  std::int64_t with_gold_documents = 0;
  double recall_read = 0.0, recall_cited = 0.0;
  double first_token_median = 0.0, seconds_median = 0.0;
};

// `gold`: JSONL of {"id","answers":[…],"documents":[{"id","gold"?}]?}; `output`: what rag wrote.
// Throws kNotFound, kInput naming the line.
RagScore ScoreRag(const std::string& gold, const std::string& output);

// What null for every question would score: what an answer is worth is the distance from here.
RagScore ScoreOfNull(const std::string& gold);

std::string RagScoresText(const std::vector<RagScore>& scores);  // a table
std::string RagScoresJson(const std::vector<RagScore>& scores);  // one line each

// The rule by which texts are compared.
std::string NormalizedAnswer(const std::string& text);

}  // namespace banyan
