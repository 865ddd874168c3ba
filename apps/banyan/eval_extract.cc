// banyan eval extract.
#include <memory>
#include <string>

#include "banyan/extract_score.h"
#include "eval_parts.h"
#include "option_text.h"
#include "screen.h"

namespace banyan::app {
namespace {

struct EvalExtractOptions {
  ExtractScoreOptions score;
  std::string unlabelled = "skip";
  std::string other;
  bool json = false;
};

int EvalExtract(EvalExtractOptions& options) {
  options.score.unlabelled_is_null =
      NamedValue<bool>(options.unlabelled, "--unlabelled", {{"skip", false}, {"null", true}});
  const std::string rule = options.score.unlabelled_is_null ? "taken as null" : "skipped";
  const ExtractScores scores = ScoreExtract(options.score);
  if (options.json) {
    Print(ScoreJson(scores, rule) + "\n");
    return 0;
  }
  Print(ScoreText(scores, rule));
  if (!options.other.empty()) {
    ExtractScoreOptions second = options.score;
    second.output = options.other;
    Print(CompareText(scores, ScoreExtract(second)));
  }
  return 0;
}

}  // namespace

EvalPart AddEvalExtract(CLI::App& eval) {
  CLI::App* extract = eval.add_subcommand(
      "extract", "Precision, recall and F1 of extracted values, per attribute and category");
  extract->footer(R"(
A slot (an attribute of a document) is correct, a correct null, incorrect, missing (null where there is
a value) or hallucinated (a value where there is none). P = right / (right + hallucinated + incorrect),
R = right / (right + missing + incorrect), right being correct and correct null together.

  $ banyan eval extract gold.jsonl values.jsonl
  $ banyan eval extract gold.jsonl values.jsonl --other sequential.jsonl --unlabelled null

Gold rows: {"id","values":{"brand":"Sony","colour":null,"ports":["USB","HDMI"]},"category"?}; of a list any
text is right. What a row does not name is unlabelled.)");
  auto options = std::make_shared<EvalExtractOptions>();
  extract->add_option("gold", options->score.gold, "JSONL with the right values")->required();
  extract->add_option("output", options->score.output, "What extract wrote, as JSONL")->required();
  extract->add_option("--other", options->other, "The output of another run, to compare");
  extract
      ->add_option("--unlabelled", options->unlabelled,
                   "Slots that the gold rows do not name: skip them, or null is right")
      ->capture_default_str();
  extract->add_flag("--json", options->json, "As one line of JSON");
  return {extract, [options] { return EvalExtract(*options); }};
}

}  // namespace banyan::app
