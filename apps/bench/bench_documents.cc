#include "bench_documents.h"

#include <fmt/format.h>

#include <random>

#include "banyan/error.h"
#include "banyan/rag.h"

namespace banyan::app {
namespace {

std::vector<TokenId> RandomTokens(std::mt19937_64& random, int count, int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocabulary)));
  }
  return tokens;
}

}  // namespace

void DocumentsBench::AddTo(CLI::App& app) {
  model.AddTo(app);
  const auto number = [&](const char* name, int& value, const char* what) {
    app.add_option(name, value, what)->check(CLI::PositiveNumber)->capture_default_str();
  };
  number("--documents", documents, "How many");
  number("--document-tokens", document_tokens, "Tokens of each");
  number("--system-tokens", system_tokens, "Tokens before them");
  number("--question-tokens", question_tokens, "Tokens of the question");
  number("--max-new", max_new, "Tokens of the answer");
  app.add_option("--seed", seed, "Of the tokens")->capture_default_str();
}

std::int64_t DocumentsBench::longest_prompt() const {
  return std::int64_t{documents} * document_tokens + system_tokens + question_tokens + max_new;
}

DocumentQuestions::DocumentQuestions(const DocumentsBench& bench, int vocabulary)
    : bench_(bench), vocabulary_(vocabulary) {
  std::mt19937_64 random(bench.seed);
  system_ = RandomTokens(random, bench.system_tokens, vocabulary);
  for (int k = 0; k < bench.documents; ++k) {
    documents_.push_back(RandomTokens(random, bench.document_tokens, vocabulary));
  }
}

std::vector<TokenId> DocumentQuestions::QuestionTokens(int which) const {
  std::mt19937_64 random(bench_.seed + 1000003 * (1 + static_cast<std::uint64_t>(which)));
  return RandomTokens(random, bench_.question_tokens, vocabulary_);
}

PromptSegment DocumentQuestions::AsExperts(int which, const std::vector<TokenId>& forced) const {
  PromptSegment root, question;
  root.tokens = system_;
  root.keep_as = "system";
  question.tokens = QuestionTokens(which);
  for (size_t k = 0; k < documents_.size(); ++k) {
    PromptSegment& document = root.below.emplace_back();
    document.tokens = documents_[k];
    document.keep_as = fmt::format("document {}", k);
    document.below.push_back(question);
    document.below.back().experts.push_back({0, 0.5});
  }
  AnswerRequest& answer = question.answers.emplace_back();
  answer.max_new = bench_.max_new;
  answer.forced = forced;
  answer.panel = RagPanel();
  root.below.push_back(question);
  return root;
}

PromptSegment DocumentQuestions::AsOnePrompt(int which) const {
  PromptSegment root;
  root.tokens = system_;
  PromptSegment& all = root.below.emplace_back();
  for (const std::vector<TokenId>& document : documents_) {
    all.tokens.insert(all.tokens.end(), document.begin(), document.end());
  }
  PromptSegment& question = all.below.emplace_back();
  question.tokens = QuestionTokens(which);
  question.answers.emplace_back().max_new = bench_.max_new;
  return root;
}

PromptSegment WithShortAnswer(PromptSegment request, int max_new) {
  for (AnswerRequest& answer : request.answers) answer.max_new = max_new;
  for (PromptSegment& below : request.below) {
    below = WithShortAnswer(std::move(below), max_new);
  }
  return request;
}

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

void ReportWait(const std::string& name, const Answer& answer, nlohmann::ordered_json& json) {
  json[name] = {{"first_token_seconds", answer.first_token_seconds}, {"seconds", answer.seconds}};
  fmt::print(stderr, "{:<34} {:>9.4f} s to the first token, {:>9.4f} s in all\n", name,
             answer.first_token_seconds, answer.seconds);
}

}  // namespace banyan::app
