// banyan bench forest, tree and the named jobs: one synthetic job under several strategies. bench
// shared and hydragen: decode rates of many streams over one shared prefix.
#include <fmt/format.h>
#include <algorithm>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "bench_run.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

// Jobs of real data sets, as token counts; the figures beside them are of one H200, Qwen3-8B shape,
// bf16: Transformers 5 batched as well as it can, and what this project aims at.
struct NamedWork {
  const char* name;
  const char* what;
  int instruction, document, questions, question, max_new;
  int documents_cuda, documents_cpu;
  double transformers, target;  // questions/s
};
constexpr NamedWork kNamedWorks[] = {
    {"squad2", "SQuAD2-like: short pages, nine questions each", 47, 178, 9, 13, 4, 128, 4, 131,
     900},
    {"narrativeqa", "NarrativeQA-like, five examples in the instruction", 2754, 737, 30, 12, 6, 40,
     1, 8.5, 800},
    {"race", "RACE-like: four questions a page, one token each", 40, 344, 4, 40, 1, 288, 2, 78,
     290},
    {"longhealth", "LongHealth-like: long records, twenty questions each", 73, 11720, 20, 73, 1, 8,
     1, 2.4, 40},
};

struct WorkCommand {
  BenchModel model;
  bool tree = false;  // the job is a literal
  std::string literal;
  const NamedWork* named = nullptr;
  int documents = 4, questions = 16;
  std::vector<int> lengths = {32, 512, 12};  // tokens: instruction, document, question
  int max_new = 16;
  std::uint64_t seed = 1;
};

Work WorkOf(const WorkCommand& command, bool on_device) {
  Work work;
  if (command.tree) {
    work = ParseWork(command.literal);
  } else if (command.named != nullptr) {
    const NamedWork& named = *command.named;
    work.name = named.name;
    const int by_default = on_device ? named.documents_cuda : named.documents_cpu;
    work.branches = {1, command.documents > 0 ? command.documents : by_default, named.questions};
    work.lengths = {named.instruction, named.document, named.question};
  } else {
    work.name = "forest";
    work.branches = {1, command.documents, command.questions};
    work.lengths = command.lengths;
  }
  work.max_new = command.max_new;
  work.seed = command.seed;
  return work;
}

int RunCommand(WorkCommand& command) {
  const bool on_device = command.model.run.load.device == "cuda";
  const Work work = WorkOf(command, on_device);
  const BenchRun run = command.model.Prepare();
  const WorkResult result = RunWork(run, work);
  if (!command.model.json.empty()) WriteJson(command.model.json, JsonOf(result, *run.model));
  if (command.model.json == "-") return 0;
  PrintWork(result, *run.model);
  if (command.named != nullptr && on_device && command.model.shape == "qwen3-8b") {
    fmt::print("On one H200: target >= {} questions/s; Transformers, best batch, {}.\n",
               command.named->target, command.named->transformers);
  }
  return 0;
}

void AddAnswerOptions(CLI::App& app, WorkCommand& command) {
  app.add_option("--max-new", command.max_new, "Tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", command.seed, "Of the tokens")->capture_default_str();
}

struct GridCommand {
  std::string name;
  BenchModel model;
  std::vector<int> streams, prefixes;
  int own = 16;
  int max_new = 64;
  std::uint64_t seed = 1;
  bool targets = false;
};

// Tokens/s that this project aims at on one H200, Qwen3-8B shape, bf16.
double SharedTarget(const Work& work) {
  const int streams = work.streams(), shared = work.lengths.front();
  if (streams == 256 && shared == 2048) return 28000;
  if (streams == 256 && shared == 16384) return 18000;
  if (streams == 1 && shared == 2048) return 190;
  return 0;
}

// All streams of a cell run at once, so that its decode steps have a row for each. Rows that were
// not asked for are the engine's choice.
void FitStreams(int streams, EngineOptions& engine) {
  engine.max_streams = std::max(engine.max_streams, streams);
  if (engine.batch_rows > 0) engine.batch_rows = std::max(engine.batch_rows, streams);
}

int RunGrid(GridCommand& command) {
  const BenchRun prepared = command.model.Prepare();
  std::vector<WorkResult> results;
  for (const int streams : command.streams) {
    for (const int prefix : command.prefixes) {
      Work work;
      work.name = command.name;
      work.branches = {1, streams};
      work.lengths = {prefix, command.own};
      work.max_new = command.max_new;
      work.seed = command.seed;
      BenchRun run = prepared;
      FitStreams(streams, run.engine);
      fmt::print(stderr, "{} streams, {} shared\n", streams, prefix);
      results.push_back(RunWork(run, work));
    }
  }
  if (!command.model.json.empty()) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const WorkResult& result : results) json.push_back(JsonOf(result, *prepared.model));
    WriteJson(command.model.json, json);
    if (command.model.json == "-") return 0;
  }
  const bool targets = command.targets && command.model.shape == "qwen3-8b";
  PrintGrid(results, *prepared.model, targets ? SharedTarget : nullptr);
  return 0;
}

BenchCommand AddGrid(CLI::App& bench, const std::shared_ptr<GridCommand>& command,
                     const std::string& what) {
  CLI::App* app = bench.add_subcommand(command->name, what);
  command->model.AddTo(*app);
  app->add_option("--streams", command->streams, "Numbers of streams")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--prefix", command->prefixes, "Numbers of shared tokens")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--own", command->own, "Tokens of a stream's own prompt")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--max-new", command->max_new, "Tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--seed", command->seed, "Of the tokens")->capture_default_str();
  return {app, [command] { return RunGrid(*command); }};
}

}  // namespace

BenchCommand AddBenchForest(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "forest", "Every strategy on the same synthetic forest of documents and questions");
  auto command = std::make_shared<WorkCommand>();
  command->model.strategies = "flat,paged,stacked,tree,auto,no-attention";
  command->model.flat_tokens = 0;
  command->model.AddTo(*app);
  app->add_option("--documents", command->documents)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--questions", command->questions, "Per document")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--lengths", command->lengths, "Tokens of instruction, document, question")
      ->delimiter(',')
      ->expected(3)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddAnswerOptions(*app, *command);
  return {app, [command] { return RunCommand(*command); }};
}

BenchCommand AddBenchTree(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "tree", "A forest as a line: \"8 documents x 64 questions | 32, 2048, 256 tokens\"");
  auto command = std::make_shared<WorkCommand>();
  command->tree = true;
  command->model.AddTo(*app);
  app->add_option("literal", command->literal,
                  "Counts below each node, a bar, tokens of each level; one length more than "
                  "counts: the first is shared by all")
      ->required();
  AddAnswerOptions(*app, *command);
  return {app, [command] { return RunCommand(*command); }};
}

std::vector<BenchCommand> AddNamedBenches(CLI::App& bench) {
  std::vector<BenchCommand> commands;
  for (const NamedWork& named : kNamedWorks) {
    CLI::App* app = bench.add_subcommand(
        named.name, fmt::format("{} ({} / {} / {} tokens, {} new)", named.what, named.instruction,
                                named.document, named.question, named.max_new));
    auto command = std::make_shared<WorkCommand>();
    command->named = &named;
    command->documents = 0;
    command->max_new = named.max_new;
    command->model.AddTo(*app);
    app->add_option("--documents", command->documents,
                    fmt::format("Default: {} on cuda, {} elsewhere", named.documents_cuda,
                                named.documents_cpu))
        ->check(CLI::PositiveNumber);
    AddAnswerOptions(*app, *command);
    commands.push_back({app, [command] { return RunCommand(*command); }});
  }
  return commands;
}

BenchCommand AddBenchShared(CLI::App& bench) {
  auto command = std::make_shared<GridCommand>();
  command->name = "shared";
  command->model.strategies = "auto,flat,no-attention";
  command->streams = {1, 32, 256, 1024};
  command->prefixes = {2048, 16384};
  command->targets = true;
  return AddGrid(bench, command, "Decode rates of many streams on one prefix, a grid of both");
}

BenchCommand AddBenchHydragen(CLI::App& bench) {
  auto command = std::make_shared<GridCommand>();
  command->name = "hydragen";
  command->streams = {1024};
  command->prefixes = {1024, 2048, 4096, 8192, 16384};
  command->max_new = 32;
  command->model.default_shape = "codellama-7b";
  command->model.strategies = "auto,paged,flat,no-attention";
  return AddGrid(bench, command,
                 "Hydragen's grid at the codellama-7b shape, or --shape codellama-13b, "
                 "codellama-34b, yi-6b: how little a longer prefix costs");
}

}  // namespace banyan::app
