// Options, help and checks of `ask`: what the words on the command line become.
#include "ask/ask_options.h"

#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "banyan/error.h"
#include "model/reader_offer.h"
#include "program/options.h"
#include "shell/help.h"
#include "shell/table_options.h"

namespace banyan::app {
namespace {

constexpr const char* kHelp = R"(
Answers questions about documents, as text for people or as rows for programs. Text that documents
and questions share is computed once, and every answer is what it would be if it were asked alone. A
job can be interrupted at any moment and resumed.
)";

constexpr const char* kExamples = R"(
Examples
  A file and two questions; a file and an interactive prompt:
    $ banyan ask report.txt "Who signed it?" "When?"
    $ banyan ask report.txt
  The same questions of every file of a folder, as a table:
    $ banyan ask letters/ -q "Who wrote it?" -q "What is asked for?" -o answers.csv
  A column of a CSV file:
    $ banyan ask tickets.csv --field context=body -q "Which product is it about?" -o products.csv
  Rows: a document with two questions:
    $ cat in.jsonl
    {"id":"d1","context":"The tower is 324 m high.","questions":[{"id":"q1","question":"How high is it?"},
     {"id":"q2","question":"Is it high?","choices":["yes","no"]}]}
    $ banyan ask -m model.gguf in.jsonl -o out.jsonl
  The same questions of every document, whose text is in the field 'body':
    $ banyan ask -m model.gguf 'docs/*.jsonl.gz' --field context=body --questions questions.txt -o out.jsonl
  From a pipe, as CSV, five samples with a majority vote:
    $ zcat docs.csv.gz | banyan ask -m model.gguf - --input-format csv --questions q.txt \
        --temperature 0.7 --samples 5 --vote -o out.csv
  Expected cost, execution plan, prompt:
    $ banyan ask -m model.gguf in.jsonl --dry-run
    $ banyan ask -m model.gguf in.jsonl --explain -o out.jsonl
    $ banyan ask -m model.gguf in.jsonl --show-prompt
  After Ctrl-C, a full disk or a power cut: the same command with --resume. Running a finished job again
  does nothing; a different job never replaces its output without --overwrite.
    $ banyan ask -m model.gguf in.jsonl -o out.jsonl --resume
  On eight machines, one shard each:
    $ banyan ask -m model.gguf in.jsonl --shard 3/8 -o out.3.jsonl

Input
  .txt, .md, .html, .pdf: a file is a document. JSONL, or JSON of an array: {"id"?, "context", "questions":
  [{"id"?, "question", "choices"?}], "instruction"?}; a question may be a plain text; one question a line
  may be written {"id"?,"context","question","question_id"?}. CSV and TSV: a header with the same names.
  .gz and .zst are decompressed. Folders are searched. The format of standard input is detected. Other
  fields are copied; output tables keep the input's columns. Unreadable input becomes an error row, and
  the job continues (--strict: stops).
Output
  On a terminal: text to read. Else rows: {"id","question_id","question","answer","finish_reason","tokens",
  "prompt_tokens",…}; the answer is null if the document has none; "start" and "end" are its position in
  the document, in characters, if it occurs there; "confidence" is the probability that the answer is
  right, if the model's card has a calibration; "withheld" is an answer below --min-confidence; with
  choices also "choice" (from 0) and "scores"; with --samples "samples". A row that fails becomes
  {"id","question_id","question","error":{"kind","message","file","line"}}, and the job continues.
Template variables
  {context} {question} {instruction} {few_shot} {choices} {id} {question_id} and every other field;
  {{ and }} are braces. With a chat template this is the user's message, without one the whole prompt.
Exit code
  0: every row answered; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

void AddInput(CLI::App& command, AskCommand& options) {
  const char* group = "Input";
  command
      .add_option("input", options.words,
                  "Files, folders, quoted patterns such as 'docs/*.jsonl.gz', or - for standard "
                  "input; then questions about them")
      ->required();
  command
      .add_option("-q,--question", options.questions,
                  "A question for every document; may be given several times")
      ->allow_extra_args(false)
      ->group(group);
  options.input.AddTo(command, options.job, "context=body");
  command
      .add_option("--questions", options.questions_file,
                  "Questions for every document: one a line, as text or JSONL")
      ->type_name("FILE")
      ->group(group);
  options.input.AddRecordsTo(command, options.job);
}

void AddOutput(CLI::App& command, AskCommand& options) {
  const char* group = "Output";
  options.input.AddOutputTo(command, options.job);
  command.get_option("--output-format")
      ->type_name("jsonl|csv|tsv|md|text")
      ->description(
          "Format of the output, whatever its name; text is for people (default on a terminal)");
  command
      .add_flag("--dry-run", options.dry_run,
                "Print the expected rows, tokens, sharing, time and memory, and exit")
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

// A word of the command line that is no input: words with space between them, or with a question
// mark at the end, that name no file.
bool IsQuestion(const std::string& word) {
  std::error_code none;
  if (word == "-" || std::filesystem::exists(word, none)) return false;
  return word.find_first_of(" \t\n") != std::string::npos || word.ends_with('?');
}

}  // namespace

void AskCommand::AddTo(CLI::App& command) {
  command.footer(std::string(kHelp) + kExamples);
  AddInput(command, *this);
  table.AddTo(command, Bind(ask));
  command
      .add_flag("--show-prompt", show_prompt,
                "Print the prompt of the first record (or --limit N of them) and exit")
      ->group("Prompt");
  AddOutput(command, *this);
  kv.AddTo(command);
  run.model_by_default = true;
  run.AddTo(command, "mixed", "Machine");
  SetFirstOptions(command,
                  {{"Input", {"--question", "--questions", "--field", "--id", "--limit"}},
                   {"Answers", {"--copy", "--min-confidence", "--too-long"}},
                   {"Output", {"--output", "--output-format", "--ordered", "--quiet", "--verbose"}},
                   {"Jobs", {"--dry-run", "--resume", "--overwrite"}},
                   {"Model", {"--model", "--threads"}},
                   {"Help", {"--help", "--help-all"}}});
}

// From the text of the command line of `ask` to the options of the library.

// Questions and inputs may come in any order; words that all look like questions begin with an
// input.
void AskCommand::ResolveWords() {
  const bool inputs_first = std::ranges::all_of(words, IsQuestion);
  for (const std::string& word : words) {
    if (IsQuestion(word) && !(inputs_first && job.inputs.empty())) {
      ask.question_list.push_back(word);
    } else {
      job.inputs.push_back(word);
    }
  }
  ask.question_list.insert(ask.question_list.end(), questions.begin(), questions.end());
  try {
    job.needed_columns = NeededColumns(ask);
    CheckJob(job);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kNotFound || job.inputs.size() < 2) throw;
    throw Error(e.kind(), std::string(e.what()) + " (a question of one word: -q WORD)");
  }
}

void AskCommand::ResolveMode() {
  const bool data_wanted = !job.receipt.empty() || !job.columns.empty() || run.explain ||
                           ask.logprobs || ask.top_logprobs > 0 || ask.token_ids;
  const bool unsaid = job.output == "-" && job.output_format.empty();
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  if (reading_ || (unsaid && terminal && !data_wanted)) mode = AskMode::kReading;
  if (show_prompt || dry_run) mode = AskMode::kRows;
  const bool asks = !ask.question_list.empty() || !ask.questions_name.empty();
  if (asks || !AllAreDocuments(job)) return;
  if (mode == AskMode::kReading && terminal && ::isatty(STDIN_FILENO) == 1) {
    mode = AskMode::kPrompt;
    return;
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("expected a question, such as: banyan ask {} \"What is it about?\" (or "
                          "-q TEXT, --questions FILE)",
                          job.inputs.front()));
}

void AskCommand::Resolve() {
  const bool to_read = job.output == "-" && job.output_format.empty() && !show_prompt && !dry_run;
  ChooseReader(run, ReaderTask::kAsk, to_read && !quiet);
  run.Resolve();
  if (job.output_format == "text") {
    if (job.output != "-") {
      throw Error(ErrorKind::kUsage,
                  "--output-format text: is for reading and goes to standard output, without -o");
    }
    reading_ = true;
    job.output_format.clear();
  }
  const auto read = [this](const std::string& option, const std::string& path) {
    job.other_files.emplace_back(option, path);
  };
  table.ReadFiles(read);
  if (!questions_file.empty()) {
    ask.questions = ReadOptionFile(questions_file, "--questions");
    ask.questions_name = questions_file;
    read("--questions", questions_file);
  }
  for (const std::string& file : run.ModelFiles()) {
    job.other_files.emplace_back("the model", file);
  }
  for (const std::string& folder : run.AdapterFolders()) {
    for (const char* name :
         {"/adapter_config.json", "/adapter_model.safetensors", "/banyan.json"}) {
      job.other_files.emplace_back("--adapter", folder + name);
    }
  }
  input.Resolve({"id", "context", "questions", "question", "choices", "instruction", "question_id"},
                job);
  ResolveWords();
  ResolveMode();
  CheckAsk(run.engine, ask);
  kv.Resolve(run.engine);
}

}  // namespace banyan::app
