#include "tasks/options/shared_rows.h"

namespace banyan {
namespace {

using AskRow = Row<AskOptions>;

bool Draws(const AskOptions& options) { return options.sampling.temperature > 0.0f; }

}  // namespace

const OptionTable<AskOptions>& AskTable() {
  static const OptionTable<AskOptions> table = [] {
    OptionTable<AskOptions> rows;
    AddGroup<AskOptions>(
        rows, "Prompt",
        {AskRow::Text(
             "instruction", &AskOptions::instruction,
             "The instruction (system prompt), as text or @FILE; a record may have its own")
             .Elsewhere("The instruction (system prompt); a record may have its own")
             .Style(CommandStyle::kTextOrFile)
             .Identity(),
         AskRow::Text("template", &AskOptions::prompt_template,
                      "Text or @FILE with {context}, {question} and other variables (below)")
             .Elsewhere("The prompt, with {context}, {question} and other fields in braces")
             .Style(CommandStyle::kTextOrFile)
             .Identity(),
         AskRow::Text("few_shot", &AskOptions::few_shot,
                      "Examples: a text that follows the instruction, or JSONL of "
                      "{\"context\"?,\"question\",\"answer\"}")
             .Style(CommandStyle::kFile)
             .Alias("examples")
             .Identity(),
         ChatRow<AskOptions>(),
         AskRow::Flag("thinking", &AskOptions::thinking,
                      "on or off, for chat templates with enable_thinking")
             .Elsewhere("Chat templates with enable_thinking ask for thoughts first")
             .Style(CommandStyle::kOnOff)
             .Identity(),
         AskRow::Name("too_long", &AskOptions::too_long, TooLongNames(),
                      "A prompt beyond the model's window: fail (that row), truncate the context, "
                      "or split it and take the most confident answer")
             .Identity(),
         AskRow::Whole("part_tokens", &AskOptions::part_tokens,
                       "With --too-long split: document tokens per part; 0: as many as fit; short "
                       "parts give better answers than long ones")
             .Range(0, 1 << 30)
             .Unit("tokens")
             .Identity(InIdentity::kUnlessDefault),
         AskRow::Flag("reduce", &AskOptions::reduce,
                      "With --too-long split: the model then reads the passages around the best "
                      "answers together and answers once more")
             .Identity(InIdentity::kUnlessDefault)});
    AddGroup<AskOptions>(
        rows, "Answers",
        {MaxNewRow<AskOptions>(), StopRow<AskOptions>(),
         AskRow::Flag("copy", &AskOptions::copy,
                      "Restrict free answers to verbatim spans of the document, or null (default: "
                      "if the model's card says so)")
             .Style(CommandStyle::kYesOrNo)
             .Identity(),
         AskRow::Number("min_confidence", &AskOptions::min_confidence,
                        "Replace free answers by null if their confidence is lower; needs a model "
                        "whose card has a calibration (docs/model-card.md)")
             .Range(0, 1)
             .Identity(InIdentity::kUnlessDefault),
         AskRow::Text("regex", &AskOptions::regex,
                      "Regular expression that free answers must match completely")
             .Identity(),
         AskRow::JsonText("json_schema", &AskOptions::json_schema,
                          "File with a JSON Schema that free answers must match; rows also have "
                          "the answer as `value`")
             .Elsewhere(
                 "A JSON Schema that free answers must match; rows also have the answer as `value`")
             .Style(CommandStyle::kFile)
             .Identity(),
         AskRow::Number(
             "temperature", [](AskOptions & o) -> auto& { return o.sampling.temperature; },
             "Sampling temperature; 0: greedy")
             .Range(0, 100)
             .Identity(),
         AskRow::Whole(
             "top_k", [](AskOptions & o) -> auto& { return o.sampling.top_k; },
             "Only the k most likely tokens; 0: all")
             .Range(0, 1 << 20)
             .Unit("tokens")
             .CountsIf(Draws),
         AskRow::Number(
             "top_p", [](AskOptions & o) -> auto& { return o.sampling.top_p; },
             "Nucleus sampling: only the most likely tokens with this total probability")
             .Range(0, 1)
             .CountsIf(Draws),
         AskRow::Number(
             "min_p", [](AskOptions & o) -> auto& { return o.sampling.min_p; },
             "Only tokens with at least this share of the best token's probability")
             .Range(0, 1)
             .CountsIf(Draws),
         AskRow::Number(
             "repetition_penalty",
             [](AskOptions & o) -> auto& { return o.sampling.repetition_penalty; },
             "Above 1: tokens of the answer become less likely")
             .Range(0.01, 100)
             .Identity(),
         AskRow::Whole(
             "seed", [](AskOptions & o) -> auto& { return o.sampling.seed; },
             "Seed of the random draws")
             .From(0)
             .CountsIf(Draws),
         AskRow::Whole("samples", &AskOptions::samples, "Answers per question")
             .From(1)
             .Limit(ServerLimit::kAnswers)
             .Identity(),
         AskRow::Flag("vote", &AskOptions::vote, "The answer is the most frequent sample")
             .Identity(),
         AskRow::Name("choices", &AskOptions::choices, ChoiceModeNames(),
                      "Questions with choices: score each option, or show them with letters and "
                      "take the most likely letter (score, letter)")
             .Identity(),
         AskRow::Name("choice_score", &AskOptions::choice_score, ChoiceScoreNames(),
                      "Score of an option: its log-probability (sum), the mean per token, or the "
                      "sum minus the log-probability without the document (prior, for labels that "
                      "do not occur in the text)")
             .Identity(),
         AskRow::Flag("logprobs", &AskOptions::logprobs, "Add the log-probability of every token")
             .Identity(),
         AskRow::Whole("top_logprobs", &AskOptions::top_logprobs,
                       "Add the N most likely tokens at each position")
             .Range(0, 100)
             .Unit("tokens")
             .Identity(),
         AskRow::Flag("token_ids", &AskOptions::token_ids, "Add the token ids").Identity()});
    return rows;
  }();
  return table;
}

}  // namespace banyan
