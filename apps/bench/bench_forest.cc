// banyan bench forest, tree, and the named jobs: one synthetic job under several strategies.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_options.h"
#include "bench_output.h"
#include "bench_table.h"

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

}  // namespace banyan::app
