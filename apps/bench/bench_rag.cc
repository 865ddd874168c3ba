// banyan bench rag: how long a question over many documents waits for its first token and for its
// answer: as experts, with the documents' KV computed or in memory, and as one long prompt.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "bench_commands.h"
#include "bench_documents.h"
#include "bench_output.h"

namespace banyan::app {
namespace {

// Tokens of an answer that is asked for before time counts. Every count of rows that the timed
// questions will have occurs in it: on a device the first product of a new range of row counts is
// timed in several ways, 0.8 s for the five of a layer, which a server has behind it.
constexpr int kWarmUpTokens = 4;

// An answer with documents in memory, and the number of its question.
struct WarmAnswer {
  int question = 0;
  Answer answer;
};

WarmAnswer AskInMemory(const BenchRun& run, const DocumentQuestions& questions) {
  Engine engine(run.model, run.engine);
  AskOne(engine, WithShortAnswer(questions.AsExperts(0), kWarmUpTokens));
  if (run.warm_up) AskOne(engine, WithShortAnswer(questions.AsExperts(1), kWarmUpTokens));
  WarmAnswer best;
  for (int i = 0; i < std::max(1, run.repeat); ++i) {
    const int question = 2 + i;  // a new one each time: a known one would be in memory as well
    Answer answer = AskOne(engine, questions.AsExperts(question));
    if (i > 0 && answer.first_token_seconds >= best.answer.first_token_seconds) continue;
    best = {question, std::move(answer)};
  }
  return best;
}

Answer AskOnePrompt(const BenchRun& run, const DocumentQuestions& questions, int question) {
  if (run.warm_up) {
    Engine engine(run.model, run.engine);
    AskOne(engine, WithShortAnswer(questions.AsOnePrompt(0), kWarmUpTokens));
  }
  Engine engine(run.model, run.engine);
  return AskOne(engine, questions.AsOnePrompt(question));
}

int RunRagBench(DocumentsBench& bench) {
  const BenchRun run = bench.model.Prepare();
  const int context = run.model->context_length();
  const DocumentQuestions questions(bench, run.model->vocab_size());
  const auto [question, warm] = AskInMemory(run, questions);
  Answer computed;
  {
    Engine engine(run.model, run.engine);
    computed = AskOne(engine, questions.AsExperts(question));
  }
  if (computed.tokens != warm.tokens || computed.logprobs != warm.logprobs ||
      computed.betas != warm.betas || computed.experts != warm.experts) {
    throw Error(ErrorKind::kInput, "an answer with documents in memory differs from a fresh one");
  }
  std::optional<Answer> joined;
  if (bench.longest_prompt() <= context) {
    joined = AskOnePrompt(run, questions, question);
  } else {
    fmt::print(stderr,
               "one prompt of {} tokens does not fit the context of {}; see --yarn-factor\n",
               bench.longest_prompt(), context);
  }
  nlohmann::ordered_json json = {{"backend", run.model->backend_name()},
                                 {"documents", bench.documents},
                                 {"document_tokens", bench.document_tokens},
                                 {"max_new", bench.max_new}};
  fmt::print(stderr, "{} documents of {} tokens, a question of {}, {} new tokens; {}\n",
             bench.documents, bench.document_tokens, bench.question_tokens, bench.max_new,
             run.model->backend_name());
  ReportWait("experts, documents computed", computed, json);
  ReportWait("experts, documents in memory", warm, json);
  if (joined) {
    ReportWait("one prompt", *joined, json);
    const double first = joined->first_token_seconds / warm.first_token_seconds;
    const double all = joined->seconds / warm.seconds;
    json["first_token_gain"] = first;
    json["gain"] = all;
    fmt::print(stderr,
               "experts in memory over one prompt: {:.1f}x to the first token, {:.2f}x in all\n",
               first, all);
  }
  if (!bench.model.json.empty()) WriteJson(bench.model.json, json);
  return 0;
}

}  // namespace

BenchCommand AddBenchRag(CLI::App& bench) {
  auto command = std::make_shared<DocumentsBench>();
  CLI::App* app = bench.add_subcommand(
      "rag", "Waits for a question over many documents: as experts, and as one prompt");
  command->AddTo(*app);
  return {app, [command] { return RunRagBench(*command); }};
}

}  // namespace banyan::app
