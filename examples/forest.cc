// A forest of token segments: one shared document, three questions, decoded together and then each
// alone, with the same bits. Needs no model file: the weights are random.
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "banyan/banyan.h"

using banyan::Answer;
using banyan::AnswerRequest;
using banyan::Engine;
using banyan::EngineOptions;
using banyan::Model;
using banyan::PromptSegment;

// document → question 0, 1, 2
PromptSegment MakeForest() {
  PromptSegment document;
  for (int i = 0; i < 300; ++i) document.tokens.push_back(i % 97);
  for (int question = 0; question < 3; ++question) {
    PromptSegment branch;
    branch.tokens = {100 + question, 7, 9};
    AnswerRequest answer;
    answer.tag = static_cast<std::uint64_t>(question);
    answer.max_new = 8;
    branch.answers.push_back(answer);
    document.below.push_back(branch);
  }
  return document;
}

std::map<std::uint64_t, Answer> Decode(const std::shared_ptr<Model>& model, bool one_by_one) {
  EngineOptions options;
  options.one_by_one = one_by_one;
  Engine engine(model, options);
  engine.Submit(MakeForest());
  std::map<std::uint64_t, Answer> answers;
  while (engine.Step()) {
    for (Answer& answer : engine.TakeFinished()) answers[answer.tag] = std::move(answer);
  }
  const banyan::Receipt receipt = engine.receipt();
  std::printf("%s: %lld prompt tokens, %lld computed, %lld steps\n",
              one_by_one ? "one by one" : "together", static_cast<long long>(receipt.prompt_tokens),
              static_cast<long long>(receipt.prefilled_tokens),
              static_cast<long long>(receipt.steps));
  return answers;
}

int main() {
  const std::shared_ptr<Model> model = Model::Random("tiny", "bf16", {});
  const auto together = Decode(model, false);
  const auto alone = Decode(model, true);
  bool equal = together.size() == alone.size();
  for (const auto& [tag, answer] : together) {
    const Answer& other = alone.at(tag);
    equal = equal && answer.tokens == other.tokens &&
            std::memcmp(answer.logprobs.data(), other.logprobs.data(),
                        answer.logprobs.size() * sizeof(float)) == 0;
  }
  std::printf("answers and log-probabilities: %s\n", equal ? "equal, bit for bit" : "DIFFERENT");
  return equal ? 0 : 1;
}
