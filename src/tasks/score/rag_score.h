// Rows of `rag` against what is right, question by question.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "program/score.h"

namespace banyan {

class RagScorer {
 public:
  // `row`: what rag wrote; null: nothing.
  void Add(const Json& question, const Json* row);
  // In place of those of the rows; seconds.
  void SetTimes(std::vector<double> first_tokens, std::vector<double> seconds);
  RagScore Finish() const;

 private:
  RagScore score_;
  std::vector<double> exact_, sub_span_, f1_;  // [questions]
  std::vector<double> first_tokens_, seconds_;
};

}  // namespace banyan
