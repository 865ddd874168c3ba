// banyan bench draft: what speculative decoding makes of real documents, beside what needs none:
// questions that share their document, or values that are written at once. Guesses never change an
// answer, and the command fails if one did.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>

#include "banyan/error.h"
#include "baseline/speculative.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "program/json_library.h"
#include "shell/table_options.h"
#include "tasks/ask/ask_task.h"
#include "tasks/extract/extract_task.h"
#include "tasks/job/job.h"

namespace banyan::app {
namespace {

struct DraftBench {
  BenchModel model;
  std::string file, schema, draft_model;
  int tokens = 8, lookup = 3, limit = 0, max_new = 32;
};

// One way to write the answers of all documents.
struct DraftWay {
  std::string name;
  std::string group;  // ways of one group give the same answers bit for bit
  std::function<DraftedAnswers()> run;
};

struct DraftTimes {
  std::vector<double> seconds, decode_seconds;
  DraftedAnswers first;
};

// The first prompts of every record: what a task asks again after it has seen answers is left out.
// `works` keeps what the prompts refer to.
std::vector<PromptSegment> PromptsOf(Task& task, const std::vector<InputRow>& rows,
                                     std::vector<std::unique_ptr<RecordWork>>& works) {
  std::vector<PromptSegment> prompts;
  std::uint64_t tag = 0;
  const std::function<void(PromptSegment&)> number = [&](PromptSegment& segment) {
    for (AnswerRequest& answer : segment.answers) answer.tag = tag++;
    for (PromptSegment& below : segment.below) number(below);
  };
  for (const InputRow& row : rows) {
    if (row.problem) throw Error(row.problem->kind, row.problem->message);
    works.push_back(task.Start(row));
    for (PromptSegment& prompt : works.back()->NextPrompts()) {
      number(prompt);
      prompts.push_back(std::move(prompt));
    }
  }
  return prompts;
}

std::int64_t AnswersBelow(const PromptSegment& segment) {
  auto count = static_cast<std::int64_t>(segment.answers.size());
  for (const PromptSegment& below : segment.below) count += AnswersBelow(below);
  return count;
}

// The engine, as any job uses it.
DraftedAnswers RunEngine(const BenchRun& run, const std::vector<PromptSegment>& prompts) {
  EngineOptions options = run.engine;
  if (options.mixed_rows == 0) options.mixed_rows = -1;  // only the end counts
  DraftedAnswers out;
  std::int64_t answers = 0;
  for (const PromptSegment& prompt : prompts) answers += AnswersBelow(prompt);
  out.answers.resize(static_cast<size_t>(answers));
  Engine engine(run.model, options);
  const auto start = std::chrono::steady_clock::now();
  const auto take = [&] {
    for (Answer& answer : engine.TakeFinished()) {
      if (answer.finish == FinishReason::kError) throw Error(ErrorKind::kLimit, answer.error);
      out.answers[answer.tag] = std::move(answer);
    }
  };
  for (const PromptSegment& prompt : prompts) engine.Submit(prompt);
  while (engine.Step()) take();
  take();
  DraftReport& report = out.report;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Receipt receipt = engine.receipt();
  report.decode_seconds = receipt.decode_step_seconds;
  report.tokens = receipt.generated_tokens;
  report.steps = receipt.steps;
  report.decode_steps = receipt.decode_steps;
  report.rows = receipt.prefilled_tokens + receipt.decode_rows;
  report.turns = receipt.generated_tokens;
  return out;
}

void RequireEqual(const DraftedAnswers& a, const DraftedAnswers& b, const std::string& what) {
  for (size_t i = 0; i < std::max(a.answers.size(), b.answers.size()); ++i) {
    if (a.answers.size() == b.answers.size() && a.answers[i].tokens == b.answers[i].tokens &&
        a.answers[i].logprobs == b.answers[i].logprobs) {
      continue;
    }
    throw Error(
        ErrorKind::kInput,
        fmt::format("bench draft: {} gave another answer {}: no times are printed", what, i));
  }
}

double Middle(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<InputRow> RowsOf(const DraftBench& bench) {
  JobOptions job;
  job.inputs = {bench.file};
  InputReader input(InputOf(bench.schema.empty() ? job : OfDocuments(job)));
  std::vector<InputRow> rows;
  InputRow row;
  while ((bench.limit == 0 || rows.size() < static_cast<size_t>(bench.limit)) && input.Next(row)) {
    rows.push_back(row);
  }
  if (rows.empty()) throw Error(ErrorKind::kInput, bench.file + ": no rows");
  return rows;
}

// Ways, and the prompts that they read.
struct DraftJob {
  std::vector<std::unique_ptr<Task>> tasks;
  std::vector<std::unique_ptr<RecordWork>> works;
  std::vector<std::vector<PromptSegment>> prompts;          // [kinds]
  std::vector<std::pair<std::string, size_t>> engine_ways;  // name, kind
  size_t drafted = 0;                                       // the kind that is written with guesses
  std::string drafted_group;
};

DraftJob JobOf(const DraftBench& bench, const std::shared_ptr<Model>& model) {
  const std::vector<InputRow> rows = RowsOf(bench);
  DraftJob job;
  if (bench.schema.empty()) {
    AskOptions options;
    options.max_new = bench.max_new;
    options.copy = false;
    job.tasks.push_back(std::make_unique<AskTask>(model, options));
    job.prompts.push_back(PromptsOf(*job.tasks.back(), rows, job.works));
    job.engine_ways = {{"engine", 0}};
    job.drafted_group = "engine";
    return job;
  }
  ExtractOptions options;
  options.schema = ReadOptionFile(bench.schema, "--schema");
  options.schema_name = bench.schema;
  for (const auto& [mode, name] : {std::pair(ValueMode::kSkeleton, "skeleton"),
                                   {ValueMode::kIsolated, "isolated"},
                                   {ValueMode::kSequential, "sequential"}}) {
    options.values = mode;
    job.tasks.push_back(std::make_unique<ExtractTask>(model, options));
    job.engine_ways.emplace_back(name, job.prompts.size());
    job.prompts.push_back(PromptsOf(*job.tasks.back(), rows, job.works));
  }
  job.drafted = job.prompts.size() - 1;
  job.drafted_group = "sequential";
  return job;
}

std::vector<DraftWay> WaysOf(const DraftBench& bench, const BenchRun& run, const DraftJob& job,
                             const std::shared_ptr<Model>& drafter) {
  std::vector<DraftWay> ways;
  for (const auto& [name, kind] : job.engine_ways) {
    ways.push_back(
        {name, name, [&run, &prompts = job.prompts[kind]] { return RunEngine(run, prompts); }});
  }
  const auto add = [&](const std::string& name, DraftOptions options) {
    ways.push_back({job.drafted_group + ", " + name, job.drafted_group,
                    [&run, &prompts = job.prompts[job.drafted], options] {
                      return DecodeWithDrafts(run.model, prompts, options);
                    }});
  };
  add("plain steps", {0, 0, nullptr});
  if (!bench.schema.empty()) add("template known", {bench.tokens, 0, nullptr});
  add("prompt lookup", {bench.tokens, bench.lookup, nullptr});
  if (drafter) add("draft model", {bench.tokens, 0, drafter});
  return ways;
}

nlohmann::ordered_json JsonOf(const DraftWay& way, const DraftTimes& times, size_t documents) {
  const DraftReport& report = times.first.report;
  const double seconds = Middle(times.seconds);
  return {{"way", way.name},
          {"seconds", seconds},
          {"least_seconds", std::ranges::min(times.seconds)},
          {"most_seconds", std::ranges::max(times.seconds)},
          {"decode_seconds", Middle(times.decode_seconds)},
          {"documents_per_second", static_cast<double>(documents) / seconds},
          {"answers", times.first.answers.size()},
          {"tokens", report.tokens},
          {"steps", report.steps},
          {"rows", report.rows},
          {"tokens_per_turn", static_cast<double>(report.tokens) /
                                  static_cast<double>(std::max<std::int64_t>(1, report.turns))},
          {"guessed", report.guessed},
          {"known", report.known},
          {"kept", report.kept},
          {"draft_rows", report.draft_rows}};
}

int RunDraftBench(DraftBench& bench) {
  const BenchRun run = bench.model.Prepare();
  std::shared_ptr<Model> drafter;
  if (!bench.draft_model.empty()) {
    LoadOptions load = bench.model.run.load;
    load.model = bench.draft_model;
    load.adapter.clear();
    load.adapters.clear();
    drafter = Model::Load(load);
  }
  const DraftJob job = JobOf(bench, run.model);
  const std::vector<DraftWay> ways = WaysOf(bench, run, job, drafter);
  std::vector<DraftTimes> times(ways.size());
  std::map<std::string, size_t> first_of;  // group → way
  if (run.warm_up) ways.front().run();
  for (int i = 0; i < run.repeat; ++i) {
    for (size_t w = 0; w < ways.size(); ++w) {
      DraftedAnswers made = ways[w].run();
      times[w].seconds.push_back(made.report.seconds);
      times[w].decode_seconds.push_back(made.report.decode_seconds);
      const size_t like = first_of.try_emplace(ways[w].group, w).first->second;
      if (i == 0) times[w].first = std::move(made);
      if (like != w && run.model->exact()) {
        RequireEqual(times[like].first, times[w].first, ways[w].name);
      }
      std::fprintf(stderr, "draft: %s: %.3f s\n", ways[w].name.c_str(), times[w].seconds.back());
    }
  }
  const size_t documents = RowsOf(bench).size();
  nlohmann::ordered_json json = {{"documents", documents},
                                 {"draft_tokens", bench.tokens},
                                 {"backend", run.model->backend_name()}};
  const bool text = bench.model.json != "-";
  if (text) {
    fmt::print("| way | seconds | documents/s | tokens a step | guesses kept | rows |\n");
    fmt::print("|---|---|---|---|---|---|\n");
  }
  for (size_t w = 0; w < ways.size(); ++w) {
    const nlohmann::ordered_json row = JsonOf(ways[w], times[w], documents);
    json["ways"].push_back(row);
    if (!text) continue;
    fmt::print("| {} | {:.3f} | {:.2f} | {:.2f} | {} of {} | {} |\n", ways[w].name,
               row["seconds"].get<double>(), row["documents_per_second"].get<double>(),
               row["tokens_per_turn"].get<double>(), row["kept"].get<std::int64_t>(),
               row["guessed"].get<std::int64_t>(), row["rows"].get<std::int64_t>());
  }
  if (!bench.model.json.empty()) WriteJson(bench.model.json, json);
  return 0;
}

}  // namespace

BenchCommand AddBenchDraft(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "draft", "Speculative decoding on real documents, beside values or questions at once");
  auto command = std::make_shared<DraftBench>();
  command->model.strategies = "auto";
  command->model.flat_tokens = 0;
  command->model.AddTo(*app);
  app->add_option("file", command->file, "Documents with questions; with --schema documents")
      ->required();
  app->add_option("--schema", command->schema, "Attributes: values are written, not answers")
      ->type_name("FILE");
  app->add_option("--draft-model", command->draft_model, "A small model of the same vocabulary")
      ->type_name("MODEL");
  app->add_option("--draft-tokens", command->tokens, "Guesses of a stream in a step, at most")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--lookup", command->lookup,
                  "Longest run that prompt lookup looks for, in tokens")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app->add_option("--limit", command->limit, "Documents; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app->add_option("--max-new", command->max_new, "Tokens of an answer, without --schema")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return {app, [command] { return RunDraftBench(*command); }};
}

}  // namespace banyan::app
