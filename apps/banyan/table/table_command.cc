// banyan map, filter, rank and group: one prompt for every row of a table. The work is in the
// library.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/join.h"
#include "banyan/table.h"
#include "job/job_options.h"
#include "job/job_session.h"
#include "model/reader_offer.h"
#include "program.h"
#include "program/options.h"
#include "shell/help.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kMapHelp = R"(
Asks the same of every row of a table. The prompt is a text in which {column} stands for what a row
has there; or, with --columns, some columns and a question about them. Equal prompts are asked once,
and what prompts begin with in common is computed once; every answer is what it would be if it were
asked alone. A job can be interrupted at any moment and resumed.

Examples
  A column made of two others, and one by question:
    $ banyan map reviews.csv "Name the part that {product} lost: {review}" -o parts.csv
    $ banyan map reviews.csv --columns product,review "What broke?" -o broken.csv
  One of several labels, with the probability of each:
    $ banyan map tickets.jsonl --columns title,body "What is it about?" --choices billing,delivery,other
  Columns and rows in the order that shares most; what that saves; what it will cost:
    $ banyan map reviews.csv --columns product,review "What broke?" --order auto --explain -o broken.csv
    $ banyan map reviews.csv --columns product,review "What broke?" --order auto --dry-run

Input
  JSONL, JSON arrays, CSV and TSV, packed or not; Parquet with 'python3 -m banyan map'. A row without one
  of the columns, or with the id of an earlier row, becomes an error row with its file and line.
Output
  In the input's order, one row each: {"id","answer","finish_reason","tokens","prompt_tokens",…} and the
  fields of the input; with --choices also "choice", "probabilities" and "scores", with --label "calibrated".
Exit code
  0: every row answered; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

constexpr const char* kFilterHelp = R"(
Keeps the rows of a table of which a statement is true: those where the probability of "yes" against
"no" is at least --threshold. The statement is a text in which {column} stands for what a row has there;
or, with --columns, some columns and a statement about them. Equal prompts are asked once. A job can be
interrupted at any moment and resumed.

Examples
  Rows that are kept, with their probability; and all rows:
    $ banyan filter reviews.csv --columns product,review "The customer is angry." -o angry.csv
    $ banyan filter reviews.jsonl "{review} is about {product}." --all -o judged.jsonl
  Two models: the small one decides where a sample shows that it may, with 95 % confidence:
    $ banyan filter reviews.csv --columns review "The customer is angry." -m small.gguf --large large.gguf \
        --recall 0.95 --precision 0.9 -o angry.csv

  Probabilities that are right as often as they say, by a column that is true or false in some rows:
    $ banyan filter reviews.csv --columns review "The customer is angry." --label judged -o angry.csv

Input
  As of 'banyan map'.
Output
  In the input's order: {"id","probability",…} and the fields of the input; with --all also "keep". The
  probability is the model's own, "confidence" that its verdict is right if the model's card tells, and
  "calibrated" the probability by --label. A row that cannot be asked becomes an error row.
Exit code
  0: every row judged; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

constexpr const char* kRankHelp = R"(
Orders the rows of a table by a score: the probability that a statement is true of the row; or, with
--choices of numbers, the value that the model expects. One prompt a row, so n rows cost n prompts. With
--pairwise that order is sorted again by comparing rows, two in a prompt: about n log2(n) pairs, each asked
in both orders (of 100 rows 480 pairs, 960 prompts; --dry-run tells). The difference of both decides.
Equal texts keep the order by score.

Examples
  The angriest customers first; the ten most urgent tickets, from 1 to 5:
    $ banyan rank reviews.csv --columns product,review "The customer is angry." -o angry.csv
    $ banyan rank tickets.jsonl --columns title,body "How urgent is it?" --choices 1,2,3,4,5 --top 10
  The ten angriest ones, by comparisons; what that will cost:
    $ banyan rank reviews.csv --columns review "The customer is angry." --pairwise --top 10 --dry-run

Input
  As of 'banyan map'.
Output
  By falling score: {"id","rank","score","probabilities",…} and the fields of the input; then error rows.
  The rows in the input's order are kept in OUTPUT.rows.jsonl with its journal, comparisons in
  OUTPUT.pairs.jsonl: --resume goes on there.
Exit code
  0: every row judged; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

constexpr const char* kGroupHelp = R"(
Groups the rows of a table by the answer to a question: one of --choices, or, without them, equal answers
(but for case, punctuation and space).

Examples
  Tickets by what they are about; reviews by the part that broke:
    $ banyan group tickets.jsonl --columns title,body "What is it about?" --choices billing,delivery,other
    $ banyan group reviews.csv --columns review "Which part broke?" -o parts.csv

Input
  As of 'banyan map'.
Output
  The largest group first: {"group","rows","members"} with the ids of its rows; then error rows. The rows
  with their answers are kept in OUTPUT.rows.jsonl with its journal: --resume goes on there.
Exit code
  0: every row answered; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

constexpr const char* kJoinHelp = R"(
Finds the pairs of rows of two tables of which a statement is true. For every row of the left table,
candidates of the right one are found by shared words (BM25), or by an encoder's vectors; each of these
pairs is asked about, as 'banyan filter' asks about a row. So n rows cost at most n times --candidates
prompts.

Examples
    $ banyan join offers.csv catalogue.csv "{left.title} and {right.name} are the same product." -o same.csv
    $ banyan join offers.csv catalogue.csv "{left.title} and {right.name} are the same product." \
        --encoder all-minilm-l6-v2 --candidates 5 --all -o judged.jsonl

Input
  As of 'banyan map'; columns are called left.NAME and right.NAME.
Output
  A row a pair, by left rows: {"id","probability","left.NAME"…,"right.NAME"…}; the id has both ids. With
  --all also "keep". A row of either table that cannot be read becomes an error row.
Exit code
  0: every pair judged; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

// What the commands differ in.
struct TableVerb {
  TableOperator op;
  const char* name;
  const char* summary;
  const char* help;
  const char* prompt;                // what it calls its prompt
  const char* example;               // of one
  std::vector<std::string> options;  // of the options that not all commands have
};

const std::vector<std::string> kOfSome = {
    "--choices",       "--threshold",  "--all",    "--top",   "--recall",
    "--min-precision", "--confidence", "--sample", "--label", "--pairwise"};

const TableVerb kMapVerb = {TableOperator::kMap,
                            "map",
                            "Ask the same of every row of a table",
                            kMapHelp,
                            "prompt",
                            "What is {name} made of?",
                            {"--choices", "--label"}};
const TableVerb kFilterVerb = {
    TableOperator::kFilter,
    "filter",
    "Keep the rows of a table of which a statement is true",
    kFilterHelp,
    "statement",
    "{name} is a boat.",
    {"--threshold", "--all", "--recall", "--min-precision", "--confidence", "--sample", "--label"}};
const TableVerb kRankVerb = {TableOperator::kRank,
                             "rank",
                             "Order the rows of a table by a score",
                             kRankHelp,
                             "statement",
                             "{name} is fast.",
                             {"--choices", "--pairwise", "--top"}};
const TableVerb kGroupVerb = {TableOperator::kGroup,
                              "group",
                              "Group the rows of a table by the answer to a question",
                              kGroupHelp,
                              "question",
                              "What kind of boat is {name}?",
                              {"--choices"}};

const TableVerb kJoinVerb = {TableOperator::kFilter,
                             "join",
                             "Pair the rows of two tables of which a statement is true",
                             kJoinHelp,
                             "statement",
                             "{left.name} is {right.name}.",
                             {"--threshold", "--all"}};

struct TableCommand {
  explicit TableCommand(const TableVerb& of) : verb(of) { table.op = of.op; }

  const TableVerb& verb;
  RunOptions run;
  InputOptions input;
  JobOptions job;
  TableAskOptions table;
  JoinOptions pairs;    // of a join
  std::string encoder;  // of a join; empty: none
  TableOptions texts;   // of `ask`, which may be in files
  std::vector<std::string> words;
  std::string large;  // the model that decides what -m is not sure of; empty: none
  bool dry_run = false, show_prompt = false, quiet = false;

  bool joins() const { return &verb == &kJoinVerb; }
  void AddTo(CLI::App& command);
  void AddJoinTo(CLI::App& command);
  void AddPromiseTo(CLI::App& command);
  void ResolveWords();
  void Resolve();
};

void TableCommand::AddTo(CLI::App& command) {
  command.footer(verb.help);
  command
      .add_option("input", words,
                  joins() ? "The left table, the right table, and the statement"
                          : fmt::format("Files, folders, quoted patterns, or - for standard input; "
                                        "then the {}",
                                        verb.prompt))
      ->required();
  input.AddTo(command, job, "text=body");
  input.AddRecordsTo(command, job);
  input.AddOutputTo(command, job);
  // Tables keep all columns of the input; rows always have its order.
  command.remove_option(command.get_option("--columns"));
  command.remove_option(command.get_option("--ordered"));
  BoundOptions asks = Bind(table.ask);
  std::erase_if(asks, [](const BoundOption& option) {
    return option.facts->name == "template" || option.facts->name == "choices";
  });
  texts.AddTo(command, asks);
  TableOptions().AddTo(command, Bind(table));
  for (const std::string& option : kOfSome) {
    if (std::ranges::find(verb.options, option) == verb.options.end()) {
      command.remove_option(command.get_option(option));
    }
  }
  command
      .add_flag("--show-prompt", show_prompt,
                "Print the prompt of the first row (or --limit N of them) and exit")
      ->group("Prompt");
  command
      .add_flag("--dry-run", dry_run,
                "Print the expected rows, tokens, sharing, time and memory, and exit")
      ->group("Output");
  command.add_flag("--quiet", quiet, "No progress and no receipt on stderr")->group("Output");
  run.model_by_default = true;
  run.AddTo(command, "mixed", "Machine");
  std::vector<std::string> prompt = {"--columns", "--order", "--show-prompt"};
  prompt.insert(prompt.end(), verb.options.begin(), verb.options.end());
  if (joins()) {
    AddJoinTo(command);
    prompt.insert(prompt.end(), {"--candidates", "--encoder"});
  } else if (table.op == TableOperator::kFilter) {
    AddPromiseTo(command);
    prompt.emplace_back("--large");
  }
  SetFirstOptions(command, {{"Prompt", prompt},
                            {"Input", {"--id", "--limit"}},
                            {"Output", {"--output", "--output-format", "--quiet", "--verbose"}},
                            {"Jobs", {"--dry-run", "--resume", "--overwrite", "--explain"}},
                            {"Model", {"--model", "--threads"}},
                            {"Help", {"--help", "--help-all"}}});
}

void TableCommand::AddJoinTo(CLI::App& command) {
  command
      .add_option("--candidates", pairs.candidates,
                  "Rows of the right table that a row of the left one is asked about, at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str()
      ->group("Prompt");
  command
      .add_option("--encoder", encoder,
                  "Find candidates by the vectors of this encoder (default: by shared words)")
      ->type_name("MODEL")
      ->group("Prompt");
}

void TableCommand::AddPromiseTo(CLI::App& command) {
  command
      .add_option("--large", large,
                  "With --recall or --precision: the model that decides what the model of -m is "
                  "not sure of")
      ->type_name("MODEL")
      ->group("Answers");
  // One word for two things: a share is of the kept rows, a name is of the numbers.
  CLI::Option* numbers = command.get_option("--precision");
  const std::string help = numbers->get_description();
  command.remove_option(numbers);
  command
      .add_option_function<std::string>(
          "--precision",
          [this](const std::string& text) {
            double share = 0.0;
            if (CLI::detail::lexical_cast(text, share) && share >= 0.0 && share <= 1.0) {
              table.precision = share;
            } else if (text == "f32" || text == "mixed" || text == "w8a8") {
              run.load.precision = text;
            } else {
              throw CLI::ValidationError(fmt::format(
                  "--precision: expected a share from 0 to 1, or one of f32, mixed, w8a8; found "
                  "'{}'",
                  text));
            }
          },
          "A share: as --min-precision. " + help)
      ->type_name("SHARE|f32|mixed|w8a8")
      ->group("Machine");
}

// Two tables and a statement.
void TableCommand::ResolveWords() {
  std::error_code none;
  if (joins() && words.size() != 3) {
    throw Error(ErrorKind::kUsage,
                fmt::format("expected two tables and a statement, such as: banyan join LEFT RIGHT "
                            "\"{}\"; found {}",
                            verb.example, fmt::join(words, " ")));
  }
  if (words.size() < 2 || std::filesystem::exists(words.back(), none)) {
    throw Error(ErrorKind::kUsage,
                fmt::format("expected a {} after the table, such as: banyan {} {} \"{}\"; found {}",
                            verb.prompt, verb.name,
                            std::filesystem::exists(words.front(), none) ? words.front() : "TABLE",
                            verb.example, words.size() < 2 ? "none" : "the file " + words.back()));
  }
  table.prompt = words.back();
  job.inputs.assign(words.begin(), words.end() - 1);
  if (!joins()) return;
  pairs.right = job.inputs.back();
  job.inputs.pop_back();
  job.other_files.emplace_back("the right table", pairs.right);
  if (dry_run || show_prompt) {
    throw Error(ErrorKind::kUsage,
                "--dry-run, --show-prompt: a join makes its pairs first; --limit N asks about the "
                "first ones");
  }
}

void TableCommand::Resolve() {
  ResolveWords();
  const bool promises = table.recall > 0.0 || table.precision > 0.0;
  if (promises != !large.empty()) {
    throw Error(ErrorKind::kUsage,
                promises ? "--recall, --precision: expected --large MODEL, which decides what the "
                           "model of -m is not sure of"
                         : "--large: expected --recall or --precision, which say how much it must "
                           "decide");
  }
  if (promises && (dry_run || table.threshold != 0.5)) {
    throw Error(ErrorKind::kUsage, dry_run ? "--dry-run: what a promise costs is known when the "
                                             "sample is labelled"
                                           : "--threshold: a promise chooses its thresholds");
  }
  ChooseReader(run, ReaderTask::kAsk, /*may_ask=*/false);
  run.Resolve();
  const auto read = [this](const std::string& option, const std::string& path) {
    job.other_files.emplace_back(option, path);
  };
  texts.ReadFiles(read);
  for (const std::string& file : run.ModelFiles()) read("the model", file);
  std::vector<std::string> fields = {"id"};
  if (!joins()) {
    for (const std::string& column : TableColumnsOf(table)) fields.push_back(column);
  }
  input.Resolve(fields, job);
  job.document_field = "text";
  job.other_document_field.clear();
  CheckTable(run.engine, table, job);
  if (!joins()) job.needed_columns = NeededColumns(table, job);
  // What is written at the end alone need not be there to be resumed.
  JobOptions checked = job;
  if (table.op == TableOperator::kRank || table.op == TableOperator::kGroup || promises ||
      !table.label.empty()) {
    checked.overwrite |= job.resume;
    checked.resume = checked.retry_errors = false;
  }
  CheckJob(checked);
}

int RunTableCommand(TableCommand& command) {
  command.Resolve();
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (command.show_prompt) {
    Print(ShowTablePrompts(model, command.table, command.job));
    return 0;
  }
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  if (command.dry_run) {
    return ShowEstimate(EstimateTable(model, command.run.engine, command.table, command.job),
                        command.quiet);
  }
  const JobSession session(command.job, command.quiet, command.input.verbose);
  JobReceipt receipt;
  if (command.joins()) {
    if (!command.encoder.empty()) {
      RunOptions other = command.run;
      other.load.model = command.encoder;
      other.Resolve();
      command.pairs.encoder = other.LoadEncoder(command.quiet);
    }
    receipt = RunJoin(model, command.run.engine, command.table, command.pairs, command.job);
    receipt.task = command.verb.name;
  } else if (command.large.empty()) {
    receipt = RunTable(model, command.run.engine, command.table, command.job);
  } else {
    RunOptions other = command.run;
    other.load.model = command.large;
    other.Resolve();
    receipt = RunPromisedFilter(model, other.LoadModel(command.quiet), command.run.engine,
                                command.table, command.job);
  }
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  receipt.adapter = command.run.load.adapter;
  return session.Finish(receipt);
}

Command AddTableCommand(CLI::App& app, const TableVerb& verb) {
  auto options = std::make_shared<TableCommand>(verb);
  options->AddTo(*app.add_subcommand(verb.name, verb.summary));
  return [options] { return RunTableCommand(*options); };
}

}  // namespace

Command AddMap(CLI::App& app) { return AddTableCommand(app, kMapVerb); }
Command AddFilter(CLI::App& app) { return AddTableCommand(app, kFilterVerb); }
Command AddRank(CLI::App& app) { return AddTableCommand(app, kRankVerb); }
Command AddJoin(CLI::App& app) { return AddTableCommand(app, kJoinVerb); }
Command AddGroup(CLI::App& app) { return AddTableCommand(app, kGroupVerb); }

}  // namespace banyan::app
