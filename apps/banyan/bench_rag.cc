// banyan bench rag: how long a question over many documents waits for its first token and for its
// answer: as experts, with the documents' KV computed or in memory, and as one long prompt.
#include <fmt/format.h>

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

int RunRagBench(DocumentsBench& bench) {
  const BenchRun run = bench.model.Prepare();
  const int context = run.model->context_length();
  const DocumentQuestions questions(bench, run.model->vocab_size());
  Answer cold, warm, again;
  {
    Engine engine(run.model, run.engine);
    cold = AskOne(engine, questions.AsExperts(0));
    warm = AskOne(engine, questions.AsExperts(1));
  }
  {
    Engine engine(run.model, run.engine);
    again = AskOne(engine, questions.AsExperts(1));
  }
  if (again.tokens != warm.tokens || again.logprobs != warm.logprobs || again.betas != warm.betas ||
      again.experts != warm.experts) {
    throw Error(ErrorKind::kInput, "an answer with documents in memory differs from a fresh one");
  }
  std::optional<Answer> joined;
  if (bench.longest_prompt() <= context) {
    Engine engine(run.model, run.engine);
    joined = AskOne(engine, questions.AsOnePrompt(1));
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
  ReportWait("experts, documents computed", cold, json);
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
