// banyan bench kv: documents from a KV store against documents that are computed: the wait for the
// first token, the speed of reading, and what 8 bits change.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "banyan/engine.h"
#include "banyan/error.h"
#include "banyan/kv_store.h"
#include "banyan/model.h"
#include "bench_commands.h"
#include "bench_documents.h"
#include "bench_output.h"
#include "measure_store.h"

namespace banyan::app {
namespace {

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
