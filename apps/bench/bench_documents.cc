// banyan bench rag and bench kv: questions over random documents, as experts and as one prompt.
#include <unistd.h>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/kv_store.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "measure_store.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

struct DocumentsBench {
  BenchModel model;
  int documents = 16, document_tokens = 512;
  int system_tokens = 32, question_tokens = 24;
  int max_new = 32;
  std::uint64_t seed = 1;

  void AddTo(CLI::App& app);
  // Tokens of all documents in one prompt, the answer's included.
  std::int64_t longest_prompt() const;
};

class DocumentQuestions {
 public:
  // `bench` must outlive the questions.
  DocumentQuestions(const DocumentsBench& bench, int vocabulary);

  // Question `which`, any number, of every document, fused. `forced`: tokens to take, for their
  // log-probabilities.
  PromptSegment AsExperts(int which, const std::vector<TokenId>& forced = {}) const;
  PromptSegment AsOnePrompt(int which) const;

 private:
  std::vector<TokenId> QuestionTokens(int which) const;

  const DocumentsBench& bench_;
  int vocabulary_;
  std::vector<TokenId> system_;
  std::vector<std::vector<TokenId>> documents_;
};

std::vector<TokenId> RandomTokens(std::mt19937_64& random, int count, int vocabulary) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<std::uint64_t>(vocabulary)));
  }
  return tokens;
}

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
  answer.panel->switching = SwitchRule::kToken;  // random tokens are no words
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

// banyan bench rag: how long a question over many documents waits for its first token and for its
// answer: as experts, with the documents' KV computed or in memory, and as one long prompt.

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

// banyan bench kv: documents from a KV store against documents that are computed: the wait for the
// first token, the speed of reading, and what 8 bits change.

struct KvBench : DocumentsBench {
  std::string folder;  // empty: a temporary one
};

// A folder of the bench's own, removed at the end.
struct BenchFolder {
  explicit BenchFolder(const char* name)
      : path((std::filesystem::temp_directory_path() / fmt::format("{}-{}", name, ::getpid()))
                 .string()) {}
  ~BenchFolder() {
    std::error_code none;
    std::filesystem::remove_all(path, none);
  }
  const std::string path;
};

std::shared_ptr<KvStore> OpenBenchStore(const std::string& folder, bool write, int bits) {
  KvStoreOptions options;
  options.directory = folder;
  options.access = write ? KvStoreOptions::Access::kWrite : KvStoreOptions::Access::kRead;
  options.bits = bits;
  return KvStore::Open(options);
}

// What 8 bits change: the same tokens, and their log-probabilities over rounded documents. `bytes`:
// of the store in 16 bits.
void CompareEightBits(const BenchRun& run, const DocumentQuestions& questions,
                      const Answer& computed, std::int64_t bytes, nlohmann::ordered_json& json) {
  const BenchFolder folder("banyan-kv-8");
  const std::shared_ptr<KvStore> rounded = OpenBenchStore(folder.path, true, 8);
  EngineOptions options = run.engine;
  options.kv_store = rounded;
  options.kv_save = true;
  {
    Engine engine(run.model, options);
    AskOne(engine, questions.AsExperts(0));
    rounded->Finish();
  }
  options.kv_save = false;
  Engine engine(run.model, options);
  const Answer answer = AskOne(engine, questions.AsExperts(0));
  const Answer scored = AskOne(engine, questions.AsExperts(0, computed.tokens));
  double sum = 0.0, worst = 0.0;
  for (size_t i = 0; i < scored.logprobs.size(); ++i) {
    const double difference = std::fabs(scored.logprobs[i] - computed.logprobs[i]);
    sum += difference;
    worst = std::max(worst, difference);
  }
  double key_loss = 0.0, value_loss = 0.0;
  for (const StoredSegment& segment : rounded->List()) {
    key_loss = std::max(key_loss, segment.key_loss);
    value_loss = std::max(value_loss, segment.value_loss);
  }
  const double mean = sum / static_cast<double>(std::max<size_t>(1, scored.logprobs.size()));
  json["eight_bits"] = {
      {"bytes", rounded->totals().bytes}, {"key_loss", key_loss},
      {"value_loss", value_loss},         {"same_answer", answer.tokens == computed.tokens},
      {"mean_logprob_difference", mean},  {"largest_logprob_difference", worst}};
  fmt::print(stderr,
             "8 bits: {:.0f} % of the bytes, keys lose {:.2f} %, values {:.2f} %; {} answer, "
             "log-probabilities differ by {:.4f} in the mean, {:.4f} at most\n",
             100.0 * static_cast<double>(rounded->totals().bytes) / static_cast<double>(bytes),
             100.0 * key_loss, 100.0 * value_loss,
             answer.tokens == computed.tokens ? "the same" : "another", mean, worst);
}

int RunKvBench(KvBench& bench) {
  BenchRun run = bench.model.Prepare();
  const BenchFolder own("banyan-kv");
  const std::string& folder = bench.folder.empty() ? own.path : bench.folder;
  const DocumentQuestions questions(bench, run.model->vocab_size());
  nlohmann::ordered_json json = {{"backend", run.model->backend_name()},
                                 {"documents", bench.documents},
                                 {"document_tokens", bench.document_tokens}};
  fmt::print(stderr, "{} documents of {} tokens, a question of {}; {}\n", bench.documents,
             bench.document_tokens, bench.question_tokens, run.model->backend_name());
  Answer computed, loaded, memory, other;  // `other`: of another question, as `memory`
  {
    const std::shared_ptr<KvStore> store = OpenBenchStore(folder, true, 0);
    EngineOptions options = run.engine;
    options.kv_store = store;
    options.kv_save = true;
    Engine engine(run.model, options);
    computed = AskOne(engine, questions.AsExperts(0));
    other = AskOne(engine, questions.AsExperts(1));
    store->Finish();
  }
  ReportWait("experts, computed and saved", computed, json);
  {
    EngineOptions options = run.engine;
    options.kv_store = OpenBenchStore(folder, false, 0);
    Engine engine(run.model, options);
    loaded = AskOne(engine, questions.AsExperts(0));
    const std::int64_t wanted =
        bench.system_tokens + std::int64_t{bench.documents} * bench.document_tokens;
    if (engine.receipt().loaded_tokens != wanted) {
      throw Error(ErrorKind::kInput, fmt::format("{} tokens came from the store, expected {}",
                                                 engine.receipt().loaded_tokens, wanted));
    }
    // Of the same question its own tokens would be in memory, too.
    memory = AskOne(engine, questions.AsExperts(1));
  }
  for (const auto& [found, fresh] : {std::pair(&loaded, &computed), std::pair(&memory, &other)}) {
    if (found->tokens != fresh->tokens || found->logprobs != fresh->logprobs) {
      throw Error(ErrorKind::kInput, "an answer with documents from disk differs from a fresh one");
    }
  }
  ReportWait("experts, from the store", loaded, json);
  ReportWait("experts, in memory after that", memory, json);
  if (bench.longest_prompt() <= run.model->context_length()) {
    Engine engine(run.model, run.engine);
    const Answer joined = AskOne(engine, questions.AsOnePrompt(0));
    ReportWait("one prompt", joined, json);
    json["store_gain"] = joined.first_token_seconds / loaded.first_token_seconds;
    json["memory_gain"] = joined.first_token_seconds / memory.first_token_seconds;
    fmt::print(stderr, "to the first token: {:.1f}x one prompt from the store, {:.1f}x in memory\n",
               joined.first_token_seconds / loaded.first_token_seconds,
               joined.first_token_seconds / memory.first_token_seconds);
  } else {
    fmt::print(stderr, "one prompt of {} tokens does not fit the context of {}\n",
               bench.longest_prompt(), run.model->context_length());
  }
  const std::shared_ptr<KvStore> store = OpenBenchStore(folder, false, 0);
  const StoreReadTimes times = MeasureStoreRead(*run.model, *store);
  const auto rate = [&](double seconds) {
    return static_cast<double>(times.bytes) / seconds / 1e6;
  };
  json["read"] = {{"bytes", times.bytes},
                  {"plain_cold_mb_per_second", rate(times.plain_cold)},
                  {"load_cold_mb_per_second", rate(times.load_cold)},
                  {"plain_warm_mb_per_second", rate(times.plain_warm)},
                  {"load_warm_mb_per_second", rate(times.load_warm)}};
  fmt::print(
      stderr,
      "reading {:.1f} MB: {:.0f} MB/s of {:.0f} plain from disk ({:.0f} %), {:.0f} of {:.0f} "
      "from the system's memory ({:.0f} %)\n",
      static_cast<double>(times.bytes) / 1e6, rate(times.load_cold), rate(times.plain_cold),
      100.0 * times.plain_cold / times.load_cold, rate(times.load_warm), rate(times.plain_warm),
      100.0 * times.plain_warm / times.load_warm);
  CompareEightBits(run, questions, computed, times.bytes, json);
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

BenchCommand AddBenchKv(CLI::App& bench) {
  auto command = std::make_shared<KvBench>();
  CLI::App* app = bench.add_subcommand(
      "kv", "Documents from a KV store: waits, speed of reading, what 8 bits change");
  command->max_new = 16;
  command->AddTo(*app);
  app->add_option("--store", command->folder, "Where (default: a temporary folder)")
      ->type_name("FOLDER");
  return {app, [command] { return RunKvBench(*command); }};
}

}  // namespace banyan::app
