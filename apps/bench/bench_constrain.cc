// banyan bench constrain: what constraints cost on one thread, without a model: the trie of the
// vocabulary, compiling, the mask of a state at its first visit and afterwards. bench constrained:
// what a constraint adds to a decode step: the same streams on a shared prefix, free and held to a
// schema.
#include <fmt/format.h>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>

#include "banyan/constrain.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

struct ConstrainCommand {
  std::string tokenizer, model;
  std::string regex, schema_file;
  int walks = 50;
  std::string json;
};

// Processor time of this thread, in milliseconds.
double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Sixteen attributes of a product, of every type.
std::string ProductSchema() {
  nlohmann::ordered_json properties;
  for (const char* name : {"brand", "model", "material", "colour", "origin", "title"}) {
    properties[name] = {{"type", {"string", "null"}}, {"minLength", 1}, {"maxLength", 60}};
  }
  for (const char* name : {"price", "weight", "width", "height"}) {
    properties[name] = {{"type", {"number", "null"}}, {"minimum", 0}};
  }
  for (const char* name : {"count", "year"}) {
    properties[name] = {{"type", {"integer", "null"}}, {"minimum", 0}, {"maximum", 9999}};
  }
  properties["waterproof"] = {{"type", {"boolean", "null"}}};
  properties["released"] = {{"type", "string"}, {"format", "date"}, {"nullable", true}};
  properties["condition"] = {{"enum", {"new", "used", "refurbished", nullptr}}};
  properties["tags"] = {{"type", "array"}, {"items", {{"type", "string"}}}, {"maxItems", 5}};
  nlohmann::ordered_json required = nlohmann::ordered_json::array();
  for (const auto& [name, schema] : properties.items()) required.push_back(name);
  return nlohmann::ordered_json{
      {"type", "object"}, {"properties", properties}, {"required", required}}
      .dump();
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot be read", path));
  return text;
}

struct Times {  // milliseconds
  std::vector<double> first, again;
};

// A walk of random allowed tokens, for at most 400 steps. The rarer half of the time goes to the
// lowest allowed id, mostly a single character, so that walks get out of strings.
void Walk(const std::shared_ptr<const Constraint>& constraint, std::mt19937& random, Times& times) {
  ConstraintState state(constraint);
  for (int step = 0; step < 400 && !state.MustEnd(); ++step) {
    const size_t computed = constraint->masks_computed();
    double begin = ThreadMilliseconds();
    auto mask = state.AllowedMask();
    const double first = ThreadMilliseconds() - begin;
    if (constraint->masks_computed() > computed) times.first.push_back(first);
    begin = ThreadMilliseconds();
    mask = state.AllowedMask();
    times.again.push_back(ThreadMilliseconds() - begin);
    const std::vector<TokenId> allowed = MaskTokens(*mask);
    const TokenId token = random() % 3 == 0 ? allowed.front() : allowed[random() % allowed.size()];
    if (!state.Advance(token)) throw Error(ErrorKind::kInput, "a mask allows what is not allowed");
  }
}

nlohmann::ordered_json Summary(std::vector<double> times) {
  if (times.empty()) return nullptr;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  return {{"count", times.size()}, {"median", at(0.5)}, {"p95", at(0.95)}, {"most", at(1.0)}};
}

int RunConstrain(const ConstrainCommand& command) {
  if (command.tokenizer.empty() == command.model.empty()) {
    throw Error(ErrorKind::kUsage, "bench constrain: expected one of --tokenizer and --model");
  }
  const std::shared_ptr<const Text> text =
      Text::Load(command.model.empty() ? command.tokenizer : DescribeModel(command.model).path);
  double begin = ThreadMilliseconds();
  const std::shared_ptr<const TokenTrie> trie = MakeTokenTrie(*text);
  const double trie_ms = ThreadMilliseconds() - begin;
  const std::string schema =
      command.schema_file.empty() ? ProductSchema() : ReadFile(command.schema_file);
  std::vector<double> compile_ms;
  std::shared_ptr<const Constraint> constraint;
  for (int run = 0; run < 5; ++run) {
    begin = ThreadMilliseconds();
    constraint = command.regex.empty() ? Constraint::FromJsonSchema(schema, trie)
                                       : Constraint::FromRegex(command.regex, trie);
    compile_ms.push_back(ThreadMilliseconds() - begin);
  }
  std::mt19937 random(1);
  Times times;
  for (int walk = 0; walk < command.walks; ++walk) Walk(constraint, random, times);
  const nlohmann::ordered_json json = {{"tokenizer", text->description()},
                                       {"states", constraint->states()},
                                       {"trie_ms", trie_ms},
                                       {"compile_ms", Summary(compile_ms)},
                                       {"mask_first_ms", Summary(times.first)},
                                       {"mask_again_ms", Summary(times.again)}};
  if (command.json != "-") {
    fmt::print("constrain: {} | {} states | one thread, {} walks\n\n", text->description(),
               constraint->states(), command.walks);
    fmt::print("| | times | median ms | 95 % ms | most ms |\n|---|---|---|---|---|\n");
    fmt::print("| trie of the vocabulary | 1 | {0:.1f} | {0:.1f} | {0:.1f} |\n", trie_ms);
    for (const char* name : {"compile_ms", "mask_first_ms", "mask_again_ms"}) {
      const nlohmann::ordered_json& row = json.at(name);
      if (row.is_null()) continue;
      fmt::print("| {} | {} | {:.4f} | {:.4f} | {:.4f} |\n",
                 std::string(name, std::string(name).size() - 3), row["count"].get<size_t>(),
                 row["median"].get<double>(), row["p95"].get<double>(), row["most"].get<double>());
    }
  }
  if (!command.json.empty()) WriteJson(command.json, json);
  return 0;
}

struct ConstrainedBench {
  BenchModel model;
  std::string tokenizer;
  int streams = 256, prefix = 1024, new_tokens = 48;
};

// Sixteen texts, together longer than any answer of the bench: none ends before its last step.
std::string LongSchema(int new_tokens) {
  nlohmann::ordered_json properties, required = nlohmann::ordered_json::array();
  for (int i = 0; i < 16; ++i) {
    const std::string name = fmt::format("attribute_{}", i);
    properties[name] = {{"type", "string"}, {"minLength", new_tokens}};
    required.push_back(name);
  }
  return nlohmann::ordered_json{
      {"type", "object"}, {"properties", properties}, {"required", required}}
      .dump();
}

struct StepTime {
  double seconds = 0.0;  // of a decode step
  std::int64_t steps = 0;
};

StepTime RunStreams(const ConstrainedBench& bench, const BenchRun& run,
                    const std::shared_ptr<const Constraint>& constraint) {
  EngineOptions options = run.engine;
  options.strategy = run.strategies.front();
  Engine engine(run.model, options);
  std::mt19937 random(1);
  const auto token = [&] {
    return static_cast<TokenId>(random() % static_cast<std::uint32_t>(run.model->vocab_size()));
  };
  PromptSegment root;
  for (int i = 0; i < bench.prefix; ++i) root.tokens.push_back(token());
  for (int stream = 0; stream < bench.streams; ++stream) {
    PromptSegment& question = root.below.emplace_back();
    for (int i = 0; i < 8; ++i) question.tokens.push_back(token());
    AnswerRequest& answer = question.answers.emplace_back();
    answer.tag = static_cast<std::uint64_t>(stream);
    answer.max_new = bench.new_tokens;
    answer.constraint = constraint;
  }
  engine.Submit(std::move(root));
  while (engine.Step()) {
    for (const Answer& answer : engine.TakeFinished()) {
      if (answer.finish == FinishReason::kError) throw Error(ErrorKind::kLimit, answer.error);
      if (static_cast<int>(answer.tokens.size()) != bench.new_tokens) {
        throw Error(ErrorKind::kInput, "bench constrained: an answer ended early");
      }
    }
  }
  const Receipt receipt = engine.receipt();
  if (receipt.decode_steps == 0)
    throw Error(ErrorKind::kLimit, "bench constrained: no decode step");
  return {receipt.decode_step_seconds / static_cast<double>(receipt.decode_steps),
          receipt.decode_steps};
}

int RunBench(ConstrainedBench& bench) {
  const BenchRun run = bench.model.Prepare();
  const std::shared_ptr<const Text> text =
      bench.tokenizer.empty() ? run.model->text() : Text::Load(bench.tokenizer);
  if (!text) throw Error(ErrorKind::kUsage, "--tokenizer: expected one: random weights have none");
  if (text->vocab_size() > run.model->vocab_size()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--tokenizer: expected at most the model's {} tokens, found {}",
                            run.model->vocab_size(), text->vocab_size()));
  }
  const std::shared_ptr<const Constraint> constraint =
      Constraint::FromJsonSchema(LongSchema(bench.new_tokens), MakeTokenTrie(*text));
  // Constrained first: its masks are made once and kept, as they are in a job.
  RunStreams(bench, run, constraint);
  StepTime free, held;
  for (int i = 0; i < std::max(3, bench.model.repeat); ++i) {  // in turns: the machine changes
    const StepTime one = RunStreams(bench, run, nullptr),
                   other = RunStreams(bench, run, constraint);
    if (i == 0 || one.seconds < free.seconds) free = one;
    if (i == 0 || other.seconds < held.seconds) held = other;
  }
  const double added = held.seconds / free.seconds - 1.0;
  if (bench.model.json != "-") {
    fmt::print("constrained: {} streams on {} tokens, {} new | {}, {} | {}\n\n", bench.streams,
               bench.prefix, bench.new_tokens, run.model->backend_name(), run.model->precision(),
               text->description());
    fmt::print("| | ms a decode step |\n|---|---|\n| free | {:.3f} |\n| constrained | {:.3f} |\n",
               free.seconds * 1e3, held.seconds * 1e3);
    fmt::print("| added | {:.1f} % |\n", added * 100.0);
  }
  if (!bench.model.json.empty()) {
    WriteJson(bench.model.json, {{"streams", bench.streams},
                                 {"prefix", bench.prefix},
                                 {"backend", run.model->backend_name()},
                                 {"free_seconds", free.seconds},
                                 {"constrained_seconds", held.seconds},
                                 {"added", added}});
  }
  return 0;
}

}  // namespace

BenchCommand AddBenchConstrain(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "constrain", "Compiling a constraint and masking tokens by it, on one thread");
  auto command = std::make_shared<ConstrainCommand>();
  app->add_option("--tokenizer", command->tokenizer,
                  "tokenizer.json, a directory that holds one, or a GGUF file");
  app->add_option("-m,--model", command->model,
                  "Instead: GGUF file, Hugging Face directory, or a name in the local caches");
  CLI::Option* regex = app->add_option("--regex", command->regex, "The constraint");
  app->add_option("--json-schema", command->schema_file,
                  "The constraint, as a file; without either, a schema of sixteen attributes")
      ->excludes(regex);
  app->add_option("--walks", command->walks, "Random texts along the masks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--json", command->json, "Also write the figures to this file; - for stdout");
  return {app, [command] { return RunConstrain(*command); }};
}

BenchCommand AddBenchConstrained(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand("constrained",
                                       "What a constraint adds to a decode step of many streams");
  auto command = std::make_shared<ConstrainedBench>();
  command->model.strategies = "auto";
  command->model.flat_tokens = 0;
  command->model.AddTo(*app);
  app->add_option(
      "--tokenizer", command->tokenizer,
      "tokenizer.json, a directory that holds one, or a GGUF file (default: the model's)");
  const auto count = [&](const char* name, int& value, const char* help) {
    app->add_option(name, value, help)->check(CLI::PositiveNumber)->capture_default_str();
  };
  count("--streams", command->streams, "How many decode together");
  count("--prefix", command->prefix, "Tokens that they share");
  count("--new", command->new_tokens, "Tokens of each answer");
  return {app, [command] { return RunBench(*command); }};
}

}  // namespace banyan::app
