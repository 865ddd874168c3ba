// banyan bench constrained: what a constraint adds to a decode step: the same streams on a shared
// prefix, free and held to a schema.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "banyan/constrain.h"
#include "banyan/error.h"
#include "banyan/text.h"
#include "bench_commands.h"
#include "bench_options.h"
#include "bench_output.h"

namespace banyan::app {
namespace {

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
