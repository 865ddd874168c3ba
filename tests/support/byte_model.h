// One small model for all engine tests of a program, with a byte-level vocabulary and a context of
// 300 tokens, and short words for asking it.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "banyan/engine.h"
#include "banyan/model.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"
#include "support/workload.h"

namespace banyan::testing_support {

inline constexpr int kContext = 300;

inline std::shared_ptr<Model> SharedModel() {
  static const std::shared_ptr<Model> model = [] {
    const TempDirectory directory;
    const TinyShape shape{.family = "qwen3", .vocab = 260, .context = kContext, .seed = 21};
    GgufWriter writer = TinyGgufHeader(shape);
    AddByteVocabulary(shape, {"ab", "abc"}, writer);
    AddTinyTensors(shape, writer);
    writer.Write(directory.path() / "tiny.gguf");
    LoadOptions options;
    options.model = (directory.path() / "tiny.gguf").string();
    options.precision = "f32";
    options.threads = 1;
    return Model::Load(options);
  }();
  return model;
}

inline std::int64_t PageBytes() { return PageBytes(*SharedModel()); }

inline std::vector<TokenId> Tokens(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(random() % 256));
  return tokens;
}

inline AnswerRequest Ask(std::uint64_t tag, int max_new) {
  AnswerRequest answer;
  answer.tag = tag;
  answer.max_new = max_new;
  return answer;
}

inline PromptSegment Prompt(std::vector<TokenId> tokens, std::vector<AnswerRequest> answers) {
  PromptSegment segment;
  segment.tokens = std::move(tokens);
  segment.answers = std::move(answers);
  return segment;
}

// With and without steps ahead: the same.
inline AnswersByTag Answers(const std::vector<PromptSegment>& requests,
                            const EngineOptions& options = {}) {
  Engine engine(SharedModel(), options);
  const AnswersByTag answers = RunAll(engine, requests);
  EngineOptions ahead = options;
  ahead.steps_ahead = 1;
  Engine other(SharedModel(), ahead);
  ExpectSameAnswers(answers, RunAll(other, requests));
  return answers;
}

inline Answer RunOne(const PromptSegment& request, const EngineOptions& options = {}) {
  return Answers({request}, options).begin()->second;
}

}  // namespace banyan::testing_support
