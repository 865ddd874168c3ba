// The kind `skeleton`: a template's pieces and the values that stand after them.
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "ids/ids_run.h"

namespace banyan::app {
namespace {

// Tokens that a value may have: one number, or one for every piece.
std::vector<int> Budgets(const Json& kmax, size_t pieces) {
  const auto read = [](const Json& value) { return IntField({{"kmax", value}}, "kmax", 0); };
  std::vector<int> budgets;
  if (!kmax.is_array()) {
    budgets.assign(pieces, read(kmax));
    return budgets;
  }
  for (const Json& value : kmax) budgets.push_back(read(value));
  if (budgets.size() != pieces) {
    BadInput(fmt::format("'kmax': expected one number, or one for each of {} attributes; found {}",
                         pieces, budgets.size()));
  }
  return budgets;
}

}  // namespace

void IdsRun::StartSkeleton(const Json& json) {
  Engine& engine = NeedEngine();
  const AnswerRequest wanted = AnswerFields(json);
  const Json& attributes = Field(json, "attributes");
  if (!attributes.is_array()) BadInput("'attributes': expected a list");
  const std::vector<int> budgets = Budgets(Field(json, "kmax"), attributes.size());
  const bool isolated = json.value("isolated", false);
  const bool gaps = !json.contains("gap") || IntField(json, "gap", 0) > 0;
  if (!gaps && !isolated) BadInput("'gap': only isolated values need none");

  PromptSegment root;
  root.tokens = TokenList(Field(json, "prompt"), "prompt");
  auto position = static_cast<std::int64_t>(root.tokens.size());
  PromptSegment* above = &root;
  for (size_t n = 0; n < attributes.size(); ++n) {
    PromptSegment& piece = above->below.emplace_back();
    piece.tokens = TokenList(attributes[n], "attributes");
    if (piece.tokens.empty()) BadInput("'attributes': a piece is empty");
    if (gaps) piece.first_position = static_cast<std::int32_t>(position);
    position += static_cast<std::int64_t>(piece.tokens.size()) + budgets[n];
    if (position > 1'000'000'000) BadInput("'kmax': the values need too many positions");
    AnswerRequest& value = piece.answers.emplace_back(wanted);
    value.max_new = budgets[n];
    value.question_key = n;
    value.tag = NewTag({first_row_ + rows_.size() - 1, 0, n});
    above = &piece;
  }
  if (!root.below.empty()) root.below.front().skeleton = !isolated;
  IdsRow& row = rows_.back();
  root.adapter = AdapterField(json);
  engine.Submit(std::move(root));
  row.answers.assign(1, std::vector<Answer>(attributes.size()));
  row.missing = static_cast<int>(attributes.size());
  if (row.missing == 0) Finish(row);
}

}  // namespace banyan::app
