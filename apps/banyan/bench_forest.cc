// banyan bench forest: every strategy on one synthetic forest.
#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_options.h"
#include "bench_output.h"

namespace banyan::app {
namespace {

struct ForestBench {
  BenchModel model;
  int documents = 4, questions = 16;
  std::vector<int> lengths = {32, 512, 12};  // tokens: instruction, document, question
  int max_new = 16;
  std::string strategies = "flat,paged,stacked,tree,auto,no-attention";
  std::uint64_t seed = 1;
  std::string json;
};

struct Outcome {
  std::string strategy;
  double seconds = 0.0;
  Receipt receipt;
  std::map<std::uint64_t, Answer> answers;
};

PromptSegment RandomSegment(int length, int vocab, std::mt19937_64& random) {
  PromptSegment segment;
  for (int i = 0; i < length; ++i) {
    segment.tokens.push_back(static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocab)));
  }
  return segment;
}

// instruction → documents → questions, the same for every strategy.
PromptSegment MakeForest(const ForestBench& bench, int vocab) {
  std::mt19937_64 random(bench.seed);
  PromptSegment root = RandomSegment(bench.lengths[0], vocab, random);
  std::uint64_t tag = 0;
  for (int d = 0; d < bench.documents; ++d) {
    PromptSegment document = RandomSegment(bench.lengths[1], vocab, random);
    for (int q = 0; q < bench.questions; ++q) {
      PromptSegment question = RandomSegment(bench.lengths[2], vocab, random);
      AnswerRequest answer;
      answer.tag = tag++;
      answer.max_new = bench.max_new;
      question.answers.push_back(answer);
      document.below.push_back(std::move(question));
    }
    root.below.push_back(std::move(document));
  }
  return root;
}

Outcome RunStrategy(const ForestBench& bench, const std::shared_ptr<Model>& model,
                    Strategy strategy) {
  EngineOptions options = bench.model.run.engine;
  options.strategy = strategy;
  Engine engine(model, options);
  engine.Submit(MakeForest(bench, model->vocab_size()));
  Outcome outcome;
  outcome.strategy = StrategyName(strategy);
  const auto start = std::chrono::steady_clock::now();
  while (engine.Step()) {
    for (Answer& answer : engine.TakeFinished()) outcome.answers[answer.tag] = std::move(answer);
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (Answer& answer : engine.TakeFinished()) outcome.answers[answer.tag] = std::move(answer);
  outcome.receipt = engine.receipt();
  return outcome;
}

// Tokens and log-probabilities, bit for bit.
bool SameAnswers(const Outcome& a, const Outcome& b) {
  if (a.answers.size() != b.answers.size()) return false;
  for (const auto& [tag, answer] : a.answers) {
    const Answer& other = b.answers.at(tag);
    if (answer.tokens != other.tokens || answer.logprobs.size() != other.logprobs.size())
      return false;
    if (std::memcmp(answer.logprobs.data(), other.logprobs.data(),
                    answer.logprobs.size() * sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

// Strategies that give other answers by definition.
bool ComparisonOnly(const std::string& strategy) {
  return strategy == "sequential" || strategy == "no-attention";
}

void PrintTable(const ForestBench& bench, const Model& model,
                const std::vector<Outcome>& outcomes) {
  fmt::print("forest: {} documents x {} questions | {} / {} / {} tokens, {} new | {}, {}\n\n",
             bench.documents, bench.questions, bench.lengths[0], bench.lengths[1], bench.lengths[2],
             bench.max_new, model.backend_name(), model.precision());
  double ceiling = 0.0;
  for (const Outcome& o : outcomes) {
    if (o.strategy == "no-attention")
      ceiling = static_cast<double>(o.receipt.generated_tokens) / o.seconds;
  }
  fmt::print(
      "| strategy | seconds | answers/s | new tokens/s | rows computed | of ceiling | of limit | "
      "equal |\n");
  fmt::print("|---|---|---|---|---|---|---|---|\n");
  for (const Outcome& o : outcomes) {
    const double rate = static_cast<double>(o.receipt.generated_tokens) / o.seconds;
    const std::string equal = ComparisonOnly(o.strategy) ? "-" : "yes";
    fmt::print("| {} | {:.3f} | {:.1f} | {:.0f} | {} | {} | {:.0f} % | {} |\n", o.strategy,
               o.seconds, static_cast<double>(o.answers.size()) / o.seconds, rate,
               o.receipt.prefilled_tokens + o.receipt.decode_rows,
               ceiling > 0.0 ? fmt::format("{:.0f} %", 100.0 * rate / ceiling) : "-",
               o.seconds > 0.0 ? 100.0 * o.receipt.limit_seconds / o.seconds : 0.0, equal);
  }
  fmt::print(
      "\nceiling: no-attention, the same run with attention left out. limit: the least time for "
      "the\n"
      "bytes and flops of each strategy's own steps at this machine's measured rates.\n");
}

nlohmann::ordered_json JsonOf(const std::vector<Outcome>& outcomes) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Outcome& o : outcomes) {
    const nlohmann::ordered_json row = {{"strategy", o.strategy},
                                        {"seconds", o.seconds},
                                        {"answers", o.answers.size()},
                                        {"generated_tokens", o.receipt.generated_tokens},
                                        {"prefilled_tokens", o.receipt.prefilled_tokens},
                                        {"prompt_tokens", o.receipt.prompt_tokens},
                                        {"limit_seconds", o.receipt.limit_seconds},
                                        {"forward_seconds", o.receipt.forward_seconds},
                                        {"plan_seconds", o.receipt.plan_seconds}};
    rows.push_back(row);
  }
  return rows;
}

int RunForest(ForestBench& bench) {
  if (bench.lengths.size() != 3) {
    throw Error(ErrorKind::kUsage,
                "--lengths: expected three numbers: instruction,document,question");
  }
  const std::shared_ptr<Model> model = bench.model.Load();
  std::vector<Outcome> outcomes;
  for (const Strategy strategy : ParseStrategies(bench.strategies)) {
    outcomes.push_back(RunStrategy(bench, model, strategy));
  }
  const Outcome* first = nullptr;
  for (const Outcome& outcome : outcomes) {
    if (ComparisonOnly(outcome.strategy)) continue;
    if (first == nullptr) first = &outcome;
    if (!SameAnswers(*first, outcome)) {
      fmt::print(stderr, "banyan: {} and {} gave different answers: no times are printed\n",
                 first->strategy, outcome.strategy);
      return 1;
    }
  }
  if (!bench.json.empty()) WriteJson(bench.json, JsonOf(outcomes));
  if (bench.json != "-") PrintTable(bench, *model, outcomes);
  return 0;
}

}  // namespace

BenchCommand AddBenchForest(CLI::App& app) {
  CLI::App* forest = app.add_subcommand(
      "forest", "Every strategy on the same synthetic forest of documents and questions");
  auto bench = std::make_shared<ForestBench>();
  bench->model.AddTo(*forest);
  forest->add_option("--documents", bench->documents)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  forest->add_option("--questions", bench->questions, "Per document")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  forest->add_option("--lengths", bench->lengths, "Tokens of instruction, document, question")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  forest->add_option("--max-new", bench->max_new, "Tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  forest->add_option("--strategies", bench->strategies, "Comma-separated")->capture_default_str();
  forest->add_option("--seed", bench->seed)->capture_default_str();
  forest->add_option("--json", bench->json, "Also write the figures to this file; -: to stdout");
  return {forest, [bench] { return RunForest(*bench); }};
}

}  // namespace banyan::app
