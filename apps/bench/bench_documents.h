// What `bench rag` and `bench kv` have in common: questions over random documents, as experts and
// as one prompt.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "bench_options.h"

namespace banyan::app {

struct DocumentsBench {
  BenchModel model;
  int documents = 16, document_tokens = 512;
  int system_tokens = 32, question_tokens = 24;
  int max_new = 32;
  std::uint64_t seed = 1;

  void AddTo(CLI::App& app);
  // Tokens of all documents in one prompt, the answer's included.
  std::int64_t longest_prompt() const;
};

class DocumentQuestions {
 public:
  // `bench` must outlive the questions.
  DocumentQuestions(const DocumentsBench& bench, int vocabulary);

  // Question `which`, any number, of every document, fused. `forced`: tokens to take, for their
  // log-probabilities.
  PromptSegment AsExperts(int which, const std::vector<TokenId>& forced = {}) const;
  PromptSegment AsOnePrompt(int which) const;

 private:
  std::vector<TokenId> QuestionTokens(int which) const;

  const DocumentsBench& bench_;
  int vocabulary_;
  std::vector<TokenId> system_;
  std::vector<std::vector<TokenId>> documents_;
};

// The same with an answer of so many tokens.
PromptSegment WithShortAnswer(PromptSegment request, int max_new);

// Runs the engine until the only answer of the request is there. Throws kLimit when it failed.
Answer AskOne(Engine& engine, PromptSegment request);

// Says on stderr how long the answer took, and notes it in `json`.
void ReportWait(const std::string& name, const Answer& answer, nlohmann::ordered_json& json);

}  // namespace banyan::app
