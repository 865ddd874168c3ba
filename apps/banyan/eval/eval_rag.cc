// banyan eval rag: rows that were written, or a sweep over ways to answer.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/error.h"
#include "eval/eval_parts.h"
#include "program/fresh_file.h"
#include "program/option_names.h"
#include "program/rag_models.h"
#include "program/rag_score.h"
#include "program/rag_sweep.h"
#include "rag/rag_options.h"
#include "terminal/screen.h"

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

struct EvalRagOptions {
  std::string gold, plot;
  std::vector<std::string> outputs;
  bool json = false, without_gold = false, quiet = false, overwrite = false;
  RunOptions run;
  std::vector<std::string> methods = {"experts"}, rules = {"max"}, scores = {"normalised"};
  std::vector<std::string> betas = {"expert"}, relevances = {"auto"}, gammas = {"auto"};
  std::vector<std::string> scopes = {AbstentionScopeName(RagPanel().abstention_scope)};
  std::vector<double> plausibilities = {0.1}, abstentions = {0.5};
  std::vector<int> together = {0};
  std::vector<double> ape_temperatures = {1.0}, ape_scales = {1.0};
  std::vector<int> documents = {0};
  std::string encoder;
  bool copy = false;
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

std::vector<RagVariant> VariantsOf(const EvalRagOptions& o, const RagOptions& common) {
  using Text = std::string;
  constexpr RagMethod kExperts = RagMethod::kExperts, kKvConcat = RagMethod::kKvConcat;
  Variants variants(common);
  variants.Times(o.methods, "", {}, [](RagVariant& variant, const Text& method) {
    variant.options.method = ParseRagMethod(method);
  });
  variants.Times(o.documents, "documents ", {},
                 [](RagVariant& variant, int count) { variant.documents = count; });
  variants.Times(o.relevances, "", {}, [](RagVariant& variant, const Text& relevance) {
    variant.options.relevance = ParseRelevanceFrom(relevance);
  });
  variants.Times(o.rules, "", kExperts, [](RagVariant& variant, const Text& rule) {
    variant.options.panel.rule = ParseFusionRule(rule);
  });
  variants.Times(o.scores, "", kExperts, [](RagVariant& variant, const Text& scores) {
    variant.options.panel.scores = ParsePanelScores(scores);
  });
  variants.Times(o.plausibilities, "α ", kExperts, [](RagVariant& variant, double plausibility) {
    variant.options.panel.plausibility = plausibility;
  });
  variants.Times(o.abstentions, "abstention ", kExperts,
                 [](RagVariant& variant, double abstention) {
                   variant.options.panel.abstention = abstention;
                 });
  variants.Times(o.scopes, "silent ", kExperts, [](RagVariant& variant, const Text& scope) {
    variant.options.panel.abstention_scope = ParseAbstentionScope(scope);
  });
  variants.Times(o.betas, "β ", kExperts, [](RagVariant& variant, const Text& beta) {
    ParseBeta(beta, "--beta", variant.options.panel);
  });
  variants.Times(o.gammas, "γ ", kExperts, [](RagVariant& variant, const Text& gamma) {
    if (gamma != "auto") variant.options.gamma = std::stod(gamma);
  });
  variants.Times(o.together, "together ", kExperts,
                 [](RagVariant& variant, int count) { variant.options.together = count; });
  variants.Times(o.ape_temperatures, "T ", kKvConcat, [](RagVariant& variant, double temperature) {
    variant.options.ape_temperature = temperature;
  });
  variants.Times(o.ape_scales, "S ", kKvConcat,
                 [](RagVariant& variant, double scale) { variant.options.ape_scale = scale; });
  std::vector<std::string> gold = {""};
  if (o.without_gold) gold.emplace_back("(no gold)");
  variants.Times(gold, "", {}, [](RagVariant& variant, const Text& without) {
    variant.without_gold = !without.empty();
  });
  return variants.Take();
}

// Numbers of a method that is not asked for would change nothing.
void CheckApe(const EvalRagOptions& o) {
  if (std::ranges::find(o.methods, "kv-concat") != o.methods.end()) return;
  const std::vector<double> as_it_is = {1.0};
  for (const auto& [name, values] :
       {std::pair("--ape-temperature", &o.ape_temperatures), {"--ape-scale", &o.ape_scales}}) {
    if (*values == as_it_is) continue;
    throw Error(ErrorKind::kUsage, fmt::format("{} goes with --method kv-concat, found {}", name,
                                               fmt::join(o.methods, ",")));
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
  const auto list = [&](const char* name, auto& values, const char* help) {
    return rag.add_option(name, values, help)->delimiter(',')->group(group)->capture_default_str();
  };
  list("--method", o.methods, "Ways to answer")
      ->type_name("experts|concat|top1|map-reduce|kv-concat");
  list("--rule", o.rules, "Rules of experts")->type_name("max|mixture|product");
  list("--scores", o.scores, "What experts are compared by")->type_name("normalised|raw");
  list("--plausibility", o.plausibilities, "Plausibility limits of experts")
      ->check(CLI::Range(0.0, 1.0));
  list("--abstention", o.abstentions, "Probabilities of null from which experts abstain")
      ->check(CLI::Range(0.0, 1.0));
  list("--abstention-scope", o.scopes, "What experts that abstain are silent about")
      ->type_name("first|answer");
  list("--beta", o.betas, "Contrasts of experts: expert, shared or a number");
  list("--gamma", o.gammas, "Weights of relevance: auto (1, of raw scores 2.5) or numbers")
      ->check(CLI::NonNegativeNumber | CLI::IsMember({"auto"}));
  list("--together", o.together, "Documents that one more expert reads together; 0: none")
      ->check(CLI::Range(0, 64));
  list("--ape-temperature", o.ape_temperatures, "Temperatures of kv-concat")
      ->check(CLI::Range(0.1, 2.0));
  list("--ape-scale", o.ape_scales, "Scales of kv-concat")->check(CLI::Range(0.1, 2.0));
  list("--relevance", o.relevances, "Who judges documents")
      ->type_name("auto|given|bm25|dense|sparse|multi-vector|equal");
  list("--documents", o.documents,
       "Documents of a question: the gold ones and the first others; 0: all")
      ->check(CLI::NonNegativeNumber);
  rag.add_flag("--without-gold", o.without_gold,
               "Everything once more without the gold documents, where null is right")
      ->group(group);
  rag.add_option("--encoder", o.encoder, "Model of dense, sparse and multi-vector relevance")
      ->type_name("MODEL")
      ->group(group);
  rag.add_flag("--copy", o.copy, "Answers are copied from a document")->group(group);
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
  return {rag, [options] { return RunEvalRag(*options); }};
}

}  // namespace banyan::app
