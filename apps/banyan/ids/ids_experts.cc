#include "ids/ids_experts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>
#include <vector>

#include "banyan/error.h"
#include "banyan/panel.h"
#include "ids/ids_rows.h"

namespace banyan::app {
namespace {

PanelOptions PanelFields(const Json& line) {
  PanelOptions panel;
  panel.gamma = NumberField(line, "gamma", panel.gamma);
  if (line.contains("rule")) panel.rule = ParseFusionRule(StringField(line, "rule"));
  if (line.contains("scores")) panel.scores = ParsePanelScores(StringField(line, "scores"));
  panel.plausibility = NumberField(line, "plausibility", panel.plausibility);
  panel.abstention = NumberField(line, "abstention", panel.abstention);
  if (line.contains("null")) panel.null_tokens = TokenList(line.at("null"), "null");
  if (!line.contains("beta")) return panel;
  const Json& beta = line.at("beta");
  if (beta.is_number()) {
    panel.beta_rule = BetaRule::kFixed;
    panel.beta = beta.get<double>();
  } else if (beta == "shared") {
    panel.beta_rule = BetaRule::kShared;
  } else if (beta != "expert") {
    BadInput(
        fmt::format("'beta': expected \"expert\", \"shared\" or a number, found {}", beta.dump()));
  }
  return panel;
}

}  // namespace

PromptSegment ExpertsRequest(const Json& line, AnswerRequest answer) {
  const Json& documents = Field(line, "documents");
  const Json& relevance = Field(line, "r");
  if (!documents.is_array() || !relevance.is_array() || documents.size() != relevance.size()) {
    BadInput("'documents' and 'r': expected two lists of the same length");
  }
  PromptSegment question;
  question.tokens = TokenList(Field(line, "question"), "question");
  PromptSegment root;
  root.tokens = TokenList(Field(line, "system"), "system");
  for (size_t k = 0; k < documents.size(); ++k) {
    if (!relevance[k].is_number()) BadInput("'r': expected numbers");
    PromptSegment& document = root.below.emplace_back();
    document.tokens = TokenList(documents[k], "documents");
    document.below.push_back(question);
    document.below.back().experts.push_back({answer.tag, relevance[k].get<double>()});
  }
  answer.panel = PanelFields(line);
  question.answers.push_back(std::move(answer));
  root.below.push_back(std::move(question));
  return root;
}

std::string ExpertsText(const Answer& answer, bool logprobs) {
  std::string text =
      fmt::format("\"tokens\":[{}],\"expert\":[{}],\"betas\":[{}]", fmt::join(answer.tokens, ","),
                  fmt::join(answer.experts, ","), fmt::join(answer.betas, ","));
  if (!answer.abstentions.empty()) {
    text += fmt::format(",\"abstentions\":[{}]", fmt::join(answer.abstentions, ","));
  }
  if (logprobs) text += ",\"logprobs\":" + FloatsText(answer.logprobs);
  return text;
}

}  // namespace banyan::app
