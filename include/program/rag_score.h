// How good answers over documents are, against gold answers and gold documents.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan {

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
