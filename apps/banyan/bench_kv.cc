// banyan bench kv: documents from a KV store against documents that are computed: the wait for the
// first token, the speed of reading, and what 8 bits change.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/kv_store.h"
#include "banyan/model.h"
#include "bench_commands.h"
#include "bench_options.h"
#include "bench_output.h"

namespace banyan::app {
namespace {

struct KvBench {
  BenchModel model;
  std::string folder;  // empty: a temporary one
  int documents = 16, document_tokens = 512;
  int system_tokens = 32, question_tokens = 24;
  int max_new = 16;
  std::uint64_t seed = 1;
};

// Removed at the end, unless the caller named it.
struct BenchFolder {
  explicit BenchFolder(const std::string& wanted) : path(wanted), keep(!wanted.empty()) {
    if (!keep) {
      path = (std::filesystem::temp_directory_path() / fmt::format("banyan-kv-{}", ::getpid()))
                 .string();
    }
  }
  ~BenchFolder() {
    std::error_code none;
    if (!keep) std::filesystem::remove_all(path, none);
  }
  std::string path;
  bool keep;
};

class StoredQuestions {
 public:
  StoredQuestions(const KvBench& bench, int vocabulary)
      : bench_(bench), random_(bench.seed), vocabulary_(vocabulary) {
    system_ = Tokens(bench.system_tokens);
    for (int k = 0; k < bench.documents; ++k) documents_.push_back(Tokens(bench.document_tokens));
    question_ = Tokens(bench.question_tokens);
  }

  // `forced`: tokens to take, for their log-probabilities.
  PromptSegment AsExperts(const std::vector<TokenId>& forced = {}) const {
    PromptSegment root, question;
    root.tokens = system_;
    root.keep_as = "system";
    question.tokens = question_;
    for (size_t k = 0; k < documents_.size(); ++k) {
      PromptSegment& document = root.below.emplace_back();
      document.tokens = documents_[k];
      document.keep_as = fmt::format("document {}", k);
      document.below.push_back(question);
      document.below.back().experts.push_back({0, 0.5});
    }
    question.answers.push_back(Wanted(forced));
    question.answers.back().panel = PanelOptions();
    root.below.push_back(question);
    return root;
  }

  PromptSegment AsOnePrompt() const {
    PromptSegment root;
    root.tokens = system_;
    PromptSegment& all = root.below.emplace_back();
    for (const std::vector<TokenId>& document : documents_) {
      all.tokens.insert(all.tokens.end(), document.begin(), document.end());
    }
    PromptSegment& question = all.below.emplace_back();
    question.tokens = question_;
    question.answers.push_back(Wanted({}));
    return root;
  }

  int longest_prompt() const {
    return bench_.system_tokens + bench_.documents * bench_.document_tokens +
           bench_.question_tokens + bench_.max_new;
  }

 private:
  std::vector<TokenId> Tokens(int count) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < count; ++i) {
      tokens.push_back(static_cast<TokenId>(random_() % static_cast<std::uint64_t>(vocabulary_)));
    }
    return tokens;
  }
  AnswerRequest Wanted(const std::vector<TokenId>& forced) const {
    AnswerRequest answer;
    answer.max_new = bench_.max_new;
    answer.forced = forced;
    return answer;
  }

  const KvBench& bench_;
  std::mt19937_64 random_;
  int vocabulary_;
  std::vector<TokenId> system_, question_;
  std::vector<std::vector<TokenId>> documents_;
};

Answer AskStored(Engine& engine, PromptSegment request) {
  engine.Submit(std::move(request));
  while (engine.Step()) {
  }
  std::vector<Answer> answers = engine.TakeFinished();
  if (answers.size() != 1 || answers[0].finish == FinishReason::kError) {
    throw Error(ErrorKind::kLimit, answers.empty() ? "no answer came" : answers[0].error);
  }
  return std::move(answers[0]);
}

std::shared_ptr<KvStore> OpenBenchStore(const std::string& folder, bool write, int bits) {
  KvStoreOptions options;
  options.directory = folder;
  options.access = write ? KvStoreOptions::Access::kWrite : KvStoreOptions::Access::kRead;
  options.bits = bits;
  return KvStore::Open(options);
}

int RunKvBench(KvBench& bench) {
  BenchRun run = bench.model.Prepare();
  const BenchFolder folder(bench.folder);
  const StoredQuestions questions(bench, run.model->vocab_size());
  nlohmann::ordered_json json = {{"backend", run.model->backend_name()},
                                 {"documents", bench.documents},
                                 {"document_tokens", bench.document_tokens}};
  fmt::print(stderr, "{} documents of {} tokens, a question of {}; {}\n", bench.documents,
             bench.document_tokens, bench.question_tokens, run.model->backend_name());
  const auto say = [&](const char* name, const Answer& answer) {
    json[name] = {{"first_token_seconds", answer.first_token_seconds}, {"seconds", answer.seconds}};
    fmt::print(stderr, "{:<34} {:>9.4f} s to the first token, {:>9.4f} s in all\n", name,
               answer.first_token_seconds, answer.seconds);
  };
  Answer computed, loaded, memory;
  {
    const std::shared_ptr<KvStore> store = OpenBenchStore(folder.path, true, 0);
    EngineOptions options = run.engine;
    options.kv_store = store;
    options.kv_save = true;
    Engine engine(run.model, options);
    computed = AskStored(engine, questions.AsExperts());
    store->Finish();
  }
  say("experts, computed and saved", computed);
  {
    EngineOptions options = run.engine;
    options.kv_store = OpenBenchStore(folder.path, false, 0);
    Engine engine(run.model, options);
    loaded = AskStored(engine, questions.AsExperts());
    const std::int64_t wanted =
        bench.system_tokens + std::int64_t{bench.documents} * bench.document_tokens;
    if (engine.receipt().loaded_tokens != wanted) {
      throw Error(ErrorKind::kInput, fmt::format("{} tokens came from the store, expected {}",
                                                 engine.receipt().loaded_tokens, wanted));
    }
    memory = AskStored(engine, questions.AsExperts());
  }
  for (const Answer* other : {&loaded, &memory}) {
    if (other->tokens != computed.tokens || other->logprobs != computed.logprobs) {
      throw Error(ErrorKind::kInput, "an answer with documents from disk differs from a fresh one");
    }
  }
  say("experts, from the store", loaded);
  say("experts, in memory after that", memory);
  if (questions.longest_prompt() <= run.model->context_length()) {
    Engine engine(run.model, run.engine);
    const Answer joined = AskStored(engine, questions.AsOnePrompt());
    say("one prompt", joined);
    json["store_gain"] = joined.first_token_seconds / loaded.first_token_seconds;
    json["memory_gain"] = joined.first_token_seconds / memory.first_token_seconds;
    fmt::print(stderr, "to the first token: {:.1f}x one prompt from the store, {:.1f}x in memory\n",
               joined.first_token_seconds / loaded.first_token_seconds,
               joined.first_token_seconds / memory.first_token_seconds);
  } else {
    fmt::print(stderr, "one prompt of {} tokens does not fit the context of {}\n",
               questions.longest_prompt(), run.model->context_length());
  }
  const std::shared_ptr<KvStore> store = OpenBenchStore(folder.path, false, 0);
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
  // What 8 bits change: the same tokens, and their log-probabilities over rounded documents.
  {
    const std::shared_ptr<KvStore> rounded = OpenBenchStore(folder.path + "-8", true, 8);
    EngineOptions options = run.engine;
    options.kv_store = rounded;
    options.kv_save = true;
    {
      Engine engine(run.model, options);
      AskStored(engine, questions.AsExperts());
      rounded->Finish();
    }
    options.kv_save = false;
    Engine engine(run.model, options);
    const Answer answer = AskStored(engine, questions.AsExperts());
    const Answer scored = AskStored(engine, questions.AsExperts(computed.tokens));
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
    fmt::print(
        stderr,
        "8 bits: {:.0f} % of the bytes, keys lose {:.2f} %, values {:.2f} %; {} answer, "
        "log-probabilities differ by {:.4f} in the mean, {:.4f} at most\n",
        100.0 * static_cast<double>(rounded->totals().bytes) / static_cast<double>(times.bytes),
        100.0 * key_loss, 100.0 * value_loss,
        answer.tokens == computed.tokens ? "the same" : "another", mean, worst);
    std::error_code none;
    std::filesystem::remove_all(folder.path + "-8", none);
  }
  if (!bench.model.json.empty()) WriteJson(bench.model.json, json);
  return 0;
}

}  // namespace

BenchCommand AddBenchKv(CLI::App& bench) {
  auto command = std::make_shared<KvBench>();
  CLI::App* app = bench.add_subcommand(
      "kv", "Documents from a KV store: waits, speed of reading, what 8 bits change");
  command->model.AddTo(*app);
  app->add_option("--store", command->folder, "Where (default: a temporary folder)")
      ->type_name("FOLDER");
  const auto number = [&](const char* name, int& value, const char* what) {
    app->add_option(name, value, what)->check(CLI::PositiveNumber)->capture_default_str();
  };
  number("--documents", command->documents, "How many");
  number("--document-tokens", command->document_tokens, "Tokens of each");
  number("--system-tokens", command->system_tokens, "Tokens before them");
  number("--question-tokens", command->question_tokens, "Tokens of the question");
  number("--max-new", command->max_new, "Tokens of the answer");
  app->add_option("--seed", command->seed, "Of the tokens")->capture_default_str();
  return {app, [command] { return RunKvBench(*command); }};
}

}  // namespace banyan::app
