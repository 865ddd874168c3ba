// banyan eval extract.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "eval/eval.h"
#include "program/fresh_file.h"
#include "program/score.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kEvalExtractHelp = R"(
A slot (an attribute of a document) is correct, a correct null, incorrect, missing (null where there is
a value) or hallucinated (a value where there is none).

Scores
  strict F1      nulls do not count: P = correct / (correct + incorrect + hallucinated),
                 R = correct / (correct + incorrect + missing); null everywhere scores 0
  partial F1     the same, but an incorrect text counts by the words it shares with the right one (F1),
                 an incorrect list by the items
  F1 with nulls  a correct null is right: P = right / (right + hallucinated + incorrect),
                 R = right / (right + missing + incorrect), right being correct and correct null
  labelled F1    F1 with nulls of those slots that the gold rows name
  accuracy       right / slots
The row 'null everywhere' has what a run that only writes null would score.

Examples
  $ banyan eval extract gold.jsonl values.jsonl --schema schema.json
  $ banyan eval extract gold.jsonl --run skeleton=a.jsonl --run sequential=b.jsonl --unlabelled null
  Slot by slot:
    $ banyan eval extract gold.jsonl values.jsonl --other sequential.jsonl
  Documents a second, where extract was run with --receipt values.jsonl.receipt.json:
    $ banyan eval extract gold.jsonl values.jsonl

Gold rows: {"id","values":{"brand":"Sony","colour":null,"ports":["USB","HDMI"]},"category"?}. A list is what
a list attribute is to have; of another attribute, any of its texts is right. What a row does not name
is unlabelled. Numbers are compared by value, dates, booleans and enum values exactly, lists as
sets, texts without case, articles, punctuation and extra space.)";

struct EvalExtractOptions {
  ExtractScoreOptions score;
  ScoreTableOptions table;
  std::string unlabelled = "skip";
  std::string schema_file, other, reliability;
  std::vector<std::string> runs;
  std::vector<double> seconds;
  bool json = false, overwrite = false;
};

struct NamedOutput {
  std::string name, file;
};

// The output, and the runs of --run. Throws kUsage.
std::vector<NamedOutput> OutputsOf(const EvalExtractOptions& options) {
  std::vector<NamedOutput> outputs;
  if (!options.score.output.empty()) {
    outputs.push_back(
        {std::filesystem::path(options.score.output).stem().string(), options.score.output});
  }
  std::set<std::string> names;
  for (const std::string& run : options.runs) {
    const size_t equals = run.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == run.size()) {
      throw Error(ErrorKind::kUsage, fmt::format("--run: expected NAME=FILE, found '{}'", run));
    }
    outputs.push_back({run.substr(0, equals), run.substr(equals + 1)});
  }
  for (const NamedOutput& output : outputs) {
    if (names.insert(output.name).second) continue;
    throw Error(ErrorKind::kUsage, fmt::format("--run: the name '{}' comes twice", output.name));
  }
  if (outputs.empty()) {
    throw Error(ErrorKind::kUsage, "expected what extract wrote: a file, or --run NAME=FILE");
  }
  if (!options.seconds.empty() && options.seconds.size() != outputs.size()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--seconds: expected one for each of {} runs, found {}", outputs.size(),
                            options.seconds.size()));
  }
  return outputs;
}

ExtractScores ScoreFile(const EvalExtractOptions& options, const std::string& file) {
  ExtractScoreOptions score = options.score;
  score.output = file;
  return ScoreExtract(score);
}

std::vector<ScoredRun> ScoreRuns(const EvalExtractOptions& options) {
  std::vector<ScoredRun> runs;
  for (const NamedOutput& output : OutputsOf(options)) {
    ExtractScores scores = ScoreFile(options, output.file);
    if (options.seconds.empty()) {
      scores.documents_per_second = SpeedFromReceipt(output.file);
    } else {
      const auto rows = static_cast<double>(scores.documents - scores.without_row);
      scores.documents_per_second = rows / options.seconds[runs.size()];
    }
    runs.push_back({output.name, std::move(scores)});
  }
  return runs;
}

void WriteReliability(const std::string& file, const ScoredRun& run, bool overwrite) {
  if (run.scores.confidences.empty()) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("--reliability: the rows of '{}' have no confidence between 0 and 1{}",
                    run.name, run.scores.log_probabilities ? ": they are log-probabilities" : ""));
  }
  WriteReliabilitySvg(file, run.scores.confidences, run.name, overwrite);
}

void PrintCalibration(const std::vector<ScoredRun>& runs) {
  for (const ScoredRun& run : runs) {
    if (run.scores.confidences.empty()) continue;
    Print("\n" + (runs.size() > 1 ? run.name + ": " : std::string()) +
          CalibrationText(Calibrate(run.scores.confidences)));
  }
}

int EvalExtract(EvalExtractOptions& options) {
  GuardOutput(options.reliability, "--reliability", options.overwrite);
  options.score.unlabelled_is_null =
      NamedValue<bool>(options.unlabelled, "--unlabelled", {{"skip", false}, {"null", true}});
  options.table.rule = options.score.unlabelled_is_null ? "taken as null" : "skipped";
  if (!options.schema_file.empty()) {
    options.score.schema = ReadOptionFile(options.schema_file, "--schema");
    options.score.schema_name = options.schema_file;
  }
  std::vector<ScoredRun> runs = ScoreRuns(options);
  if (!options.reliability.empty()) {
    WriteReliability(options.reliability, runs.front(), options.overwrite);
  }
  if (options.json) {
    if (!options.other.empty()) runs.push_back({"other", ScoreFile(options, options.other)});
    const bool one = runs.size() == 1 && options.runs.empty();
    Print((one ? ScoreJson(runs.front().scores, options.table) : RunsJson(runs, options.table)) +
          "\n");
    return 0;
  }
  Print(RunsText(runs, options.table));
  if (runs.size() == 1) Print(DetailText(runs.front().scores));
  PrintCalibration(runs);
  if (!options.other.empty()) {
    Print(CompareText(runs.front().scores, ScoreFile(options, options.other)));
  }
  return 0;
}

void AddRunOptions(CLI::App& extract, EvalExtractOptions& options) {
  extract.add_option("gold", options.score.gold, "JSONL with the right values")->required();
  extract.add_option("output", options.score.output, "What extract wrote, as JSONL");
  extract
      .add_option("--run", options.runs,
                  "NAME=FILE: what another run wrote; once for each row of the table")
      ->allow_extra_args(false)
      ->type_name("NAME=FILE");
  extract
      .add_option("--other", options.other, "The output of another run, to compare with the first")
      ->type_name("FILE");
  extract
      .add_option("--seconds", options.seconds,
                  "Seconds that a run took, once for each run (default: by the receipt beside its "
                  "output)")
      ->allow_extra_args(false)
      ->check(CLI::Range(1e-9, 1e12));
}

}  // namespace

EvalPart AddEvalExtract(CLI::App& eval) {
  CLI::App* extract = eval.add_subcommand(
      "extract", "Precision, recall and F1 of extracted values, per type, category and attribute");
  extract->footer(kEvalExtractHelp);
  auto options = std::make_shared<EvalExtractOptions>();
  AddRunOptions(*extract, *options);
  extract
      ->add_option("--schema", options->schema_file,
                   "The schema of the run: types of the attributes (default: those of the right "
                   "values)")
      ->type_name("FILE");
  extract
      ->add_option("--unlabelled", options->unlabelled,
                   "Slots that the gold rows do not name: skip them, or null is right")
      ->capture_default_str()
      ->type_name("skip|null");
  extract
      ->add_option("--bootstrap", options->table.resamples,
                   "Resamples of the documents for the 95 % intervals; 0: no intervals")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  extract
      ->add_option("--reliability", options->reliability,
                   "Write how confidence and correctness of the first run agree, as an SVG")
      ->type_name("FILE");
  extract->add_flag("--overwrite", options->overwrite, "Replace that picture if it is there");
  extract->add_flag("--json", options->json, "As one line of JSON");
  return {extract, [options] { return EvalExtract(*options); }};
}

}  // namespace banyan::app
