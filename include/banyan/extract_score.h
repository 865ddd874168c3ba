// How good extracted values are: rows of `banyan extract` against rows that say what is right.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace banyan {

// What became of a slot (an attribute of a document).
enum class SlotOutcome {
  kCorrect,
  kCorrectNull,   // null, and nothing is right
  kIncorrect,     // another value than the right one
  kMissing,       // null, or no row, where there is a right value
  kHallucinated,  // a value where null is right
};
const char* SlotOutcomeName(SlotOutcome outcome);

struct SlotCounts {
  std::int64_t correct = 0, correct_null = 0, incorrect = 0, missing = 0, hallucinated = 0;

  void Add(SlotOutcome outcome);
  std::int64_t right() const { return correct + correct_null; }
  std::int64_t slots() const { return right() + incorrect + missing + hallucinated; }
  double precision() const;  // right / (right + hallucinated + incorrect)
  double recall() const;     // right / (right + missing + incorrect)
  double f1() const;
};

struct ExtractScores {
  SlotCounts all;
  std::map<std::string, SlotCounts> by_attribute, by_category;
  std::int64_t documents = 0;    // that say what is right
  std::int64_t without_row = 0;  // of these, those without a row: all their values are missing
  std::int64_t unlabelled = 0;   // slots that were left out, because nothing says what is right
  std::map<std::pair<std::string, std::string>, SlotOutcome> slots;  // by id (JSON) and attribute
};

struct ExtractScoreOptions {
  std::string gold;  // JSONL of {"id","values":{…},"category"?}; a list: any of its texts is right
  std::string output;               // what `extract` wrote, as JSONL
  bool unlabelled_is_null = false;  // attributes that the gold row does not name: null is right
};

// Texts are compared as SQuAD does: without case, articles, punctuation and extra space; numbers by
// value; lists as sets. Throws kNotFound, kFormat.
ExtractScores ScoreExtract(const ExtractScoreOptions& options);

// For people: one table for all, attributes and categories; with `other` the same of another run
// beside it, and the slots that only one of the two has right.
std::string ScoreText(const ExtractScores& scores, const std::string& rule);
std::string CompareText(const ExtractScores& one, const ExtractScores& other);
std::string ScoreJson(const ExtractScores& scores, const std::string& rule);

}  // namespace banyan
