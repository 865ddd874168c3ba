// banyan eval rag: rows that were written, or a sweep over ways to answer.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "eval/eval.h"
#include "program/fresh_file.h"
#include "program/options.h"
#include "program/rag.h"
#include "program/score.h"
#include "rag/rag_options.h"
#include "shell/help.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kEvalRagHelp = R"(
  What rag wrote, compared:
    $ banyan eval rag gold.jsonl experts.jsonl concat.jsonl
  Ways to answer, compared at once (lists are parted by commas, and every combination is asked):
    $ banyan eval rag gold.jsonl -m MODEL --method experts,top1,concat --scores normalised,raw --gamma 0,1,2.5
    $ banyan eval rag gold.jsonl -m MODEL --method concat,kv-concat --ape-temperature 0.5,1 --ape-scale 0.8,1
    $ banyan eval rag gold.jsonl -m MODEL --documents 4,8,16 --without-gold --plot exact.svg --json

Gold rows: {"id","answers":[…],"documents":[{"id","gold"?}]?}: the best of the answers counts; without any,
null is right. Texts are compared in lower case without articles, punctuation and extra space. A sweep needs
the question and the documents' texts too. The interval is a bootstrap's, 95 %; the row "all null" is what
null for every question would score.)";

// An option of rag whose values a sweep multiplies. Choices, ranges and defaults are the table's.
struct SweptOption {
  const char* name;                 // in the table
  const char* label;                // before the value, in a variant's name
  std::optional<RagMethod> method;  // the only one that it concerns; nothing: all
  const char* help;
};

const std::vector<SweptOption>& SweptOptions() {
  constexpr RagMethod kExperts = RagMethod::kExperts, kKvConcat = RagMethod::kKvConcat;
  static const std::vector<SweptOption> options = {
      {"method", "", {}, "Ways to answer"},
      {"relevance", "", {}, "Who judges documents"},
      {"rule", "", kExperts, "Rules of experts"},
      {"switch", "switch ", kExperts, "Where another expert may go on: word or token"},
      {"scores", "", kExperts, "What experts are compared by"},
      {"plausibility", "α ", kExperts, "Plausibility limits of experts"},
      {"abstention", "abstention ", kExperts, "Probabilities of null from which experts abstain"},
      {"beta", "β ", kExperts, "Contrasts of experts: expert, shared or a number"},
      {"gamma", "γ ", kExperts, "Weights of relevance: auto (1, of raw scores 2.5) or numbers"},
      {"together", "together ", kExperts, "Documents that one more expert reads together; 0: none"},
      {"ape_temperature", "T ", kKvConcat, "Temperatures of kv-concat"},
      {"ape_scale", "S ", kKvConcat, "Scales of kv-concat"}};
  return options;
}

constexpr const char* kUnset = "auto";  // of gamma: the task chooses it

const OptionRow<RagOptions>& RowOf(const SweptOption& option) {
  return *std::ranges::find(RagTable(), std::string(option.name), &OptionFacts::name);
}

std::string DefaultText(const SweptOption& option) {
  const std::optional<OptionData>& value = RowOf(option).default_value;
  return value ? DataText(*value) : kUnset;
}

struct EvalRagOptions {
  EvalRagOptions() {
    for (const SweptOption& option : SweptOptions()) values[option.name] = {DefaultText(option)};
  }

  std::string gold, plot;
  std::vector<std::string> outputs;
  bool json = false, without_gold = false, quiet = false, overwrite = false;
  RunOptions run;
  std::map<std::string, std::vector<std::string>> values;  // of SweptOptions(), by name
  std::vector<int> documents = {0};
  std::string encoder;
  std::optional<bool> copy;
  int max_new = 24;
  std::int64_t limit = -1, timed = 4;
};

// Variants multiplied, list by list.
class Variants {
 public:
  explicit Variants(const RagOptions& common) {
    RagVariant first;
    first.options = common;
    variants_.push_back(first);
  }

  // Every variant once for each value. Where there are several, names have them. What concerns one
  // `method` alone leaves others as they are.
  template <typename Value, typename Set>
  void Times(const std::vector<Value>& values, const char* name, std::optional<RagMethod> method,
             const Set& set) {
    std::vector<RagVariant> product;
    for (const RagVariant& variant : variants_) {
      if (method && variant.options.method != *method) {
        RagVariant unused = variant;  // a value that is none is refused all the same
        for (const Value& value : values) set(unused, value);
        product.push_back(variant);
        continue;
      }
      for (size_t i = 0; i < values.size(); ++i) {
        RagVariant& one = product.emplace_back(variant);
        set(one, values[i]);
        if (values.size() > 1) {
          one.name += fmt::format("{}{}{}", one.name.empty() ? "" : " ", name, values[i]);
        }
      }
    }
    variants_ = std::move(product);
  }

  std::vector<RagVariant> Take() {
    for (RagVariant& variant : variants_) {
      while (variant.name.ends_with(' ')) variant.name.pop_back();
      if (variant.name.empty()) variant.name = RagMethodName(variant.options.method);
    }
    return std::move(variants_);
  }

 private:
  std::vector<RagVariant> variants_;
};

// The values of an option as numbers and names are written: 1 for 1.0.
std::vector<std::string> ValuesOf(const SweptOption& option, const EvalRagOptions& o) {
  std::vector<std::string> values;
  for (const std::string& text : o.values.at(option.name)) {
    const std::optional<OptionData> data = DataOf(RowOf(option), text);
    values.push_back(text != kUnset && data ? DataText(*data) : text);
  }
  return values;
}

std::vector<RagVariant> VariantsOf(const EvalRagOptions& o, const RagOptions& common) {
  Variants variants(common);
  for (const SweptOption& option : SweptOptions()) {
    const OptionRow<RagOptions>& row = RowOf(option);
    variants.Times(ValuesOf(option, o), option.label, option.method,
                   [&row](RagVariant& variant, const std::string& value) {
                     if (value == kUnset && !row.default_value) return;
                     row.set(variant.options, DataOf(row, value).value(), CommandName(row));
                   });
    if (std::string_view(option.name) != "method") continue;
    variants.Times(o.documents, "documents ", {},
                   [](RagVariant& variant, int count) { variant.documents = count; });
  }
  std::vector<std::string> gold = {""};
  if (o.without_gold) gold.emplace_back("(no gold)");
  variants.Times(gold, "", {}, [](RagVariant& variant, const std::string& without) {
    variant.without_gold = !without.empty();
  });
  return variants.Take();
}

// Numbers of a method that is not asked for would change nothing.
void CheckApe(const EvalRagOptions& o) {
  const std::vector<std::string>& methods = o.values.at("method");
  if (std::ranges::find(methods, "kv-concat") != methods.end()) return;
  for (const SweptOption& option : SweptOptions()) {
    if (option.method != RagMethod::kKvConcat) continue;
    if (ValuesOf(option, o) == std::vector<std::string>{DefaultText(option)}) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("{} goes with --method kv-concat, found {}", CommandName(RowOf(option)),
                            fmt::join(methods, ",")));
  }
}

std::vector<RagScore> Sweep(EvalRagOptions& o) {
  CheckApe(o);
  o.run.Resolve();
  RagOptions common;
  common.max_new = o.max_new;
  common.copy = o.copy;
  common.too_long = TooLong::kTruncate;
  if (!o.encoder.empty()) common.encoder = LoadRetrievalModel(o.encoder, o.run, o.quiet);
  RagSweepOptions sweep;
  sweep.gold = o.gold;
  sweep.limit = o.limit;
  sweep.timed = o.timed;
  sweep.engine = o.run.engine;
  if (!o.quiet) {
    sweep.progress = [](std::int64_t done) {
      if (done % 10 == 0) SayLine(fmt::format("{} questions", done));
    };
  }
  return SweepRag(o.run.LoadModel(o.quiet), VariantsOf(o, common), sweep);
}

int RunEvalRag(EvalRagOptions& o) {
  GuardOutput(o.plot, "--plot", o.overwrite);
  ReadOptionFile(o.gold, "gold");  // or it throws
  std::vector<RagScore> scores;
  if (o.outputs.empty()) {
    scores = Sweep(o);
  } else {
    for (const std::string& output : o.outputs) scores.push_back(ScoreRag(o.gold, output));
  }
  if (o.outputs.empty() && o.limit < 0) scores.push_back(ScoreOfNull(o.gold));
  Print(o.json ? RagScoresJson(scores) : RagScoresText(scores));
  if (o.plot.empty()) return 0;
  WriteFreshFile(o.plot, "--plot", o.overwrite, RagScoresPlot(scores));
  return 0;
}

void AddSweepOptions(CLI::App& rag, EvalRagOptions& o) {
  const char* group = "A sweep";
  for (const SweptOption& option : SweptOptions()) {
    const OptionRow<RagOptions>& row = RowOf(option);
    AddValuesOf(rag, row, o.values[option.name], row.default_value ? "" : kUnset)
        ->description(option.help)
        ->group(group);
  }
  rag.add_option("--documents", o.documents,
                 "Documents of a question: the gold ones and the first others; 0: all")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  rag.add_flag("--without-gold", o.without_gold,
               "Everything once more without the gold documents, where null is right")
      ->group(group);
  rag.add_option("--encoder", o.encoder, "Model of dense, sparse and multi-vector relevance")
      ->type_name("MODEL")
      ->group(group);
  rag.add_flag("--copy,!--no-copy", o.copy,
               "Answers are copied from a document (default: if the model's card says so)")
      ->group(group);
  rag.add_option("--max-new", o.max_new, "Maximum number of tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  rag.add_option("--limit", o.limit, "Only so many questions")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  rag.add_option("--timed", o.timed,
                 "So many questions are asked once more by each way alone, with nothing in memory: "
                 "the waits for the first token and for the whole answer")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
}

}  // namespace

EvalPart AddEvalRag(CLI::App& eval) {
  CLI::App* rag = eval.add_subcommand(
      "rag", "Answers over documents: sub-span and exact match, F1, gold documents found");
  rag->footer(kEvalRagHelp);
  auto options = std::make_shared<EvalRagOptions>();
  rag->add_option("gold", options->gold, "JSONL with the right answers")->required();
  rag->add_option("output", options->outputs,
                  "What rag wrote, as JSONL; several are compared; none: a sweep");
  rag->add_flag("--json", options->json, "A line of JSON for each row");
  rag->add_option("--plot", options->plot, "Draw exact match with its intervals, as SVG")
      ->type_name("FILE");
  rag->add_flag("--overwrite", options->overwrite, "Replace that picture if it is there");
  rag->add_flag("--quiet", options->quiet, "Nothing on stderr");
  AddSweepOptions(*rag, *options);
  options->run.model_by_default = true;
  options->run.AddTo(*rag, "mixed");
  SetFirstOptions(*rag, {{"Output", {"--json", "--plot", "--overwrite", "--quiet"}},
                         {"A sweep",
                          {"--method", "--relevance", "--beta", "--gamma", "--documents",
                           "--without-gold", "--encoder", "--copy", "--limit", "--timed"}},
                         {"Model", {"--model", "--device", "--threads"}},
                         {"Help", {"--help", "--help-all"}}});
  return {rag, [options] { return RunEvalRag(*options); }};
}

}  // namespace banyan::app
