// What tests of answers in company share: what each answer is alone, logits by definition, panels
// of experts over documents, and constraints over the vocabulary of the one small model.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "banyan/constrain.h"
#include "banyan/engine.h"
#include "load/model_parts.h"
#include "support/byte_model.h"

namespace banyan::testing_support {

// One answer after the other, nothing shared, no step ahead: what every other way is compared with.
inline AnswersByTag AnswersAlone(const std::vector<PromptSegment>& requests,
                                 const std::shared_ptr<Model>& model = SharedModel()) {
  EngineOptions alone;
  alone.strategy = Strategy::kFlat;
  alone.one_by_one = true;
  alone.steps_ahead = 0;
  Engine oracle(model, alone);
  return RunAll(oracle, requests);
}

// Logits after a whole prompt, with nothing kept from another one.
inline std::vector<float> LogitsAfter(const std::vector<TokenId>& tokens) {
  AnswerRequest answer = Ask(0, 0);
  answer.want_logits = true;
  Engine engine(SharedModel(), {});
  return RunAll(engine, {Prompt(tokens, {answer})}).begin()->second.prompt_logits;
}

// system → document → question for every expert, then system → question, which has the answer of
// all. `expert_of(k)` is the request of the expert that reads document k.
template <typename ExpertOf>
PromptSegment PanelOver(std::vector<TokenId> system,
                        const std::vector<std::vector<TokenId>>& documents,
                        const std::vector<TokenId>& question, AnswerRequest answer,
                        const ExpertOf& expert_of) {
  PromptSegment root = Prompt(std::move(system), {});
  for (size_t k = 0; k < documents.size(); ++k) {
    PromptSegment& document = root.below.emplace_back(Prompt(documents[k], {}));
    document.below.push_back(Prompt(question, {}));
    document.below.back().experts.push_back(expert_of(k));
  }
  root.below.push_back(Prompt(question, {std::move(answer)}));
  return root;
}

// The whole prompts of such a panel: that of the prior, then those of the experts.
inline std::vector<std::vector<TokenId>> PathsOf(const PromptSegment& panel) {
  const auto join = [](std::vector<TokenId> path, const std::vector<TokenId>& more) {
    path.insert(path.end(), more.begin(), more.end());
    return path;
  };
  std::vector<std::vector<TokenId>> paths = {join(panel.tokens, panel.below.back().tokens)};
  for (size_t k = 0; k + 1 < panel.below.size(); ++k) {
    const PromptSegment& document = panel.below[k];
    paths.push_back(join(join(panel.tokens, document.tokens), document.below.front().tokens));
  }
  return paths;
}

inline std::shared_ptr<const TokenTrie> SharedTrie() {
  return MakeTokenTrie(*SharedModel()->text());
}

}  // namespace banyan::testing_support
