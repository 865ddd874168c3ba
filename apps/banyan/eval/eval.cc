// banyan eval, and eval ask: scores of answers against gold rows.
#include "eval/eval.h"

#include <fmt/format.h>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "program.h"
#include "program/fresh_file.h"
#include "program/score.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kEvalAskHelp = R"(
Scores
  exact   the answer is a right one, without case, articles, punctuation and extra space (SQuAD's rule)
  F1      the words that it shares with the best right one
A question without a right answer wants null. Error rows and questions without a row count as wrong.
The first row of the table has what null to every question scores. In brackets: 95 % of the resamples of
the documents. Where rows have a confidence, a table says how far it can be believed.

Examples
  $ banyan ask questions.jsonl -o answers.jsonl && banyan eval ask questions.jsonl answers.jsonl
  How confidence and correctness agree, as a picture:
    $ banyan eval ask questions.jsonl answers.jsonl --reliability plot.svg --title "my model"

Gold rows: {"id","questions":[{"id"?,"question","answers":["Anna","Anna Walker"]}]}: what ask reads, with the
right answers; [] where there is none. A question with choices may have the number of the "right" one instead.)";

struct EvalAskOptions {
  std::string gold, reliability, title;
  std::vector<std::string> outputs;
  int resamples = 1000;
  bool json = false, overwrite = false;
};

int EvalAsk(const EvalAskOptions& options) {
  GuardOutput(options.reliability, "--reliability", options.overwrite);
  std::vector<AskScore> scores = {ScoreOfAskNull(options.gold, options.resamples)};
  std::vector<ConfidencePoint> confidences;
  for (const std::string& output : options.outputs) {
    scores.push_back(ScoreAsk(options.gold, output, options.resamples));
    scores.back().name = std::filesystem::path(output).stem().string();
  }
  for (size_t i = 1; i < scores.size(); ++i) {
    if (confidences.empty()) confidences = scores[i].confidences;
  }
  if (!options.reliability.empty()) {
    if (confidences.empty()) {
      throw Error(ErrorKind::kInput, "--reliability: the rows have no confidence");
    }
    WriteReliabilitySvg(options.reliability, confidences,
                        options.title.empty() ? scores[1].name : options.title, options.overwrite);
  }
  if (options.json) {
    Print(AskScoresJson(scores));
    return 0;
  }
  Print(AskScoresText(scores));
  for (const AskScore& score : scores) {
    if (score.confidences.empty()) continue;
    Print("\n" + (scores.size() > 2 ? score.name + ": " : std::string()) +
          CalibrationText(Calibrate(score.confidences)));
  }
  return 0;
}

}  // namespace

void WriteReliabilitySvg(const std::string& file, const std::vector<ConfidencePoint>& confidences,
                         const std::string& name, bool overwrite) {
  WriteFreshFile(file, "--reliability", overwrite, ReliabilitySvg(Calibrate(confidences), name));
}

EvalPart AddEvalAsk(CLI::App& eval) {
  CLI::App* ask = eval.add_subcommand(
      "ask", "Exact match, F1 and nulls of answers, and whether their confidence can be believed");
  ask->footer(kEvalAskHelp);
  auto options = std::make_shared<EvalAskOptions>();
  ask->add_option("gold", options->gold, "JSONL with the right answers")->required();
  ask->add_option("output", options->outputs, "What ask wrote, as JSONL; one or more")->required();
  ask->add_option("--bootstrap", options->resamples,
                  "Resamples of the documents for the 95 % intervals; 0: no intervals")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  ask->add_option("--reliability", options->reliability,
                  "Write how confidence and correctness of the first run agree, as an SVG")
      ->type_name("FILE");
  ask->add_option("--title", options->title, "Of that picture (default: the output's name)");
  ask->add_flag("--overwrite", options->overwrite, "Replace that picture if it is there");
  ask->add_flag("--json", options->json, "One line of JSON for each run");
  return {ask, [options] { return EvalAsk(*options); }};
}

// banyan eval: how good what a task wrote is.

Command AddEval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Score the output of a task against gold answers");
  command->require_subcommand(1);
  const std::vector<EvalPart> parts = {AddEvalAsk(*command), AddEvalExtract(*command),
                                       AddEvalRag(*command)};
  return [parts] {
    for (const EvalPart& part : parts) {
      if (part.app->parsed()) return part.run();
    }
    return 2;
  };
}

}  // namespace banyan::app
