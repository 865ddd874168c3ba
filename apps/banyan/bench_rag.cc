// banyan bench rag: how long a question over many documents waits for its first token and for its
// answer: as experts, with the documents' KV computed or in memory, and as one long prompt.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "bench_commands.h"
#include "bench_options.h"
#include "bench_output.h"

namespace banyan::app {
namespace {

struct RagBench {
  BenchModel model;
  int documents = 16, document_tokens = 512;
  int system_tokens = 32, question_tokens = 24;
  int max_new = 32;
  std::uint64_t seed = 1;
};

std::vector<TokenId> RandomTokens(int count, std::mt19937_64& random, int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocabulary)));
  }
  return tokens;
}

class Questions {
 public:
  Questions(const RagBench& bench, int vocabulary) : bench_(bench), random_(bench.seed) {
    system_ = RandomTokens(bench.system_tokens, random_, vocabulary);
    for (int k = 0; k < bench.documents; ++k) {
      documents_.push_back(RandomTokens(bench.document_tokens, random_, vocabulary));
    }
    for (std::vector<TokenId>& question : questions_) {
      question = RandomTokens(bench.question_tokens, random_, vocabulary);
    }
  }

  PromptSegment AsExperts(size_t which) const {
    PromptSegment root, question;
    root.tokens = system_;
    question.tokens = questions_[which];
    for (size_t k = 0; k < documents_.size(); ++k) {
      PromptSegment& document = root.below.emplace_back();
      document.tokens = documents_[k];
      document.below.push_back(question);
      document.below.back().experts.push_back({0, 0.5});
    }
    question.answers.push_back(Wanted());
    question.answers.back().panel = PanelOptions();
    root.below.push_back(question);
    return root;
  }

  PromptSegment AsOnePrompt(size_t which) const {
    PromptSegment root;
    root.tokens = system_;
    PromptSegment& all = root.below.emplace_back();
    for (const std::vector<TokenId>& document : documents_) {
      all.tokens.insert(all.tokens.end(), document.begin(), document.end());
    }
    PromptSegment& question = all.below.emplace_back();
    question.tokens = questions_[which];
    question.answers.push_back(Wanted());
    return root;
  }

 private:
  AnswerRequest Wanted() const {
    AnswerRequest answer;
    answer.max_new = bench_.max_new;
    return answer;
  }

  const RagBench& bench_;
  std::mt19937_64 random_;
  std::vector<TokenId> system_;
  std::vector<std::vector<TokenId>> documents_;
  std::vector<TokenId> questions_[2];
};

Answer AskOne(Engine& engine, PromptSegment request) {
  engine.Submit(std::move(request));
  while (engine.Step()) {
  }
  std::vector<Answer> answers = engine.TakeFinished();
  if (answers.size() != 1 || answers[0].finish == FinishReason::kError) {
    throw Error(ErrorKind::kLimit, answers.empty() ? "no answer came" : answers[0].error);
  }
  return std::move(answers[0]);
}

int RunRagBench(RagBench& bench) {
  const BenchRun run = bench.model.Prepare();
  const int context = run.model->context_length();
  const Questions questions(bench, run.model->vocab_size());
  const std::int64_t whole = std::int64_t{bench.documents} * bench.document_tokens +
                             bench.system_tokens + bench.question_tokens + bench.max_new;
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
  if (whole <= context) {
    Engine engine(run.model, run.engine);
    joined = AskOne(engine, questions.AsOnePrompt(1));
  } else {
    fmt::print(stderr,
               "one prompt of {} tokens does not fit the context of {}; see --yarn-factor\n", whole,
               context);
  }
  nlohmann::ordered_json json = {{"backend", run.model->backend_name()},
                                 {"documents", bench.documents},
                                 {"document_tokens", bench.document_tokens},
                                 {"max_new", bench.max_new}};
  const auto put = [&](const char* name, const Answer& answer) {
    json[name] = {{"first_token_seconds", answer.first_token_seconds}, {"seconds", answer.seconds}};
    fmt::print(stderr, "{:<34} {:>9.4f} s to the first token, {:>9.4f} s in all\n", name,
               answer.first_token_seconds, answer.seconds);
  };
  fmt::print(stderr, "{} documents of {} tokens, a question of {}, {} new tokens; {}\n",
             bench.documents, bench.document_tokens, bench.question_tokens, bench.max_new,
             run.model->backend_name());
  put("experts, documents computed", cold);
  put("experts, documents in memory", warm);
  if (joined) {
    put("one prompt", *joined);
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
  auto command = std::make_shared<RagBench>();
  CLI::App* app = bench.add_subcommand(
      "rag", "Waits for a question over many documents: as experts, and as one prompt");
  command->model.AddTo(*app);
  const auto number = [&](const char* name, int& value, const char* what) {
    app->add_option(name, value, what)->check(CLI::PositiveNumber)->capture_default_str();
  };
  number("--documents", command->documents, "How many");
  number("--document-tokens", command->document_tokens, "Tokens of each");
  number("--system-tokens", command->system_tokens, "Tokens before them");
  number("--question-tokens", command->question_tokens, "Tokens of the question");
  number("--max-new", command->max_new, "Tokens of the answer");
  app->add_option("--seed", command->seed, "Of the tokens")->capture_default_str();
  return {app, [command] { return RunRagBench(*command); }};
}

}  // namespace banyan::app
