// banyan ask: options, help and what a person sees on the way. The work is in the library.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "banyan/error.h"
#include "banyan/job.h"
#include "commands.h"
#include "progress_line.h"
#include "run_options.h"

namespace banyan::app {
namespace {

struct AskCommand {
  RunOptions run;
  AskOptions ask;
  JobOptions job;
  std::vector<std::string> fields;  // "context=body"
  std::string questions_file, few_shot_file, template_text, instruction_text;
  std::string chat = "auto", thinking = "off", choices = "score", choice_score = "mean";
  std::string too_long = "fail", shard = "1/1", receipt_file;
  bool dry_run = false, quiet = false;
};

std::string ReadFile(const std::string& path, const char* option) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: {}: cannot read the file", option, path));
  }
  return text.str();
}

// "@FILE" is the text of a file; anything else is the text itself.
std::string TextOrFile(const std::string& value, const char* option) {
  return value.starts_with('@') ? ReadFile(value.substr(1), option) : value;
}

template <typename Value>
Value OneOf(const std::string& text, const char* option,
            const std::vector<std::pair<const char*, Value>>& values) {
  std::string names;
  for (const auto& [name, value] : values) {
    if (text == name) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: expected one of {}; found '{}'", option, names, text));
}

void ParseShard(const std::string& text, JobOptions& job) {
  int read = 0;
  const bool parsed = std::sscanf(text.c_str(), "%d/%d%n", &job.shard, &job.shards, &read) == 2 &&
                      static_cast<size_t>(read) == text.size();
  if (!parsed || job.shard < 1 || job.shard > job.shards) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("--shard: expected i/n with 1 <= i <= n, such as 2/8; found '{}'", text));
  }
}

void ParseFields(const std::vector<std::string>& fields, JobOptions& job) {
  static const std::vector<std::string> known = {"id",      "context",     "questions",  "question",
                                                 "choices", "instruction", "question_id"};
  for (const std::string& field : fields) {
    const size_t equals = field.find('=');
    const std::string ours = field.substr(0, equals);
    const bool valid = equals != std::string::npos && equals + 1 < field.size() &&
                       std::find(known.begin(), known.end(), ours) != known.end();
    if (!valid) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--field: expected OURS=THEIRS with OURS one of id, context, "
                              "questions, question, choices, instruction, question_id; found '{}'",
                              field));
    }
    job.fields[ours] = field.substr(equals + 1);
  }
}

void Resolve(AskCommand& command) {
  command.run.Resolve();
  AskOptions& ask = command.ask;
  if (command.run.load.model.empty()) {
    throw Error(ErrorKind::kUsage, "ask: expected a model (-m FILE)");
  }
  ask.chat =
      OneOf<ChatUse>(command.chat, "--chat",
                     {{"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}});
  ask.thinking = OneOf<bool>(command.thinking, "--thinking", {{"on", true}, {"off", false}});
  ask.choices = OneOf<ChoiceMode>(command.choices, "--choices",
                                  {{"score", ChoiceMode::kScore}, {"letter", ChoiceMode::kLetter}});
  ask.choice_score = OneOf<ChoiceScore>(command.choice_score, "--choice-score",
                                        {{"mean", ChoiceScore::kMean}, {"sum", ChoiceScore::kSum}});
  ask.too_long = OneOf<TooLong>(
      command.too_long, "--too-long",
      {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}, {"split", TooLong::kSplit}});
  ask.instruction = TextOrFile(command.instruction_text, "--instruction");
  ask.prompt_template = TextOrFile(command.template_text, "--template");
  if (!command.few_shot_file.empty()) ask.few_shot = ReadFile(command.few_shot_file, "--few-shot");
  if (!command.questions_file.empty()) {
    ask.questions = ReadFile(command.questions_file, "--questions");
    ask.questions_name = command.questions_file;
  }
  ParseFields(command.fields, command.job);
  ParseShard(command.shard, command.job);
  CheckJob(command.job);
}

// --- Ctrl-C
// ----------------------------------------------------------------------------------------

std::atomic<bool> stop_asked{false};

// The first time the job ends by itself; the second time the system ends it.
extern "C" void OnInterrupt(int signal) {
  stop_asked = true;
  std::signal(signal, SIG_DFL);
}

// -------------------------------------------------------------------------------------------------

std::string ResumeHint(const AskCommand& command) {
  if (command.job.output == "-") return "";
  return fmt::format("Go on with the same command and --resume (output {}).\n", command.job.output);
}

int Finish(const AskCommand& command, const JobReceipt& receipt) {
  if (!command.receipt_file.empty()) {
    std::ofstream file(command.receipt_file, std::ios::binary);
    file << receipt.ToJson() << '\n';
    file.flush();
    if (!file) {
      throw Error(ErrorKind::kIo,
                  fmt::format("--receipt: {}: cannot write the file", command.receipt_file));
    }
  }
  if (!command.quiet) std::fputs(receipt.ToText().c_str(), stderr);
  if (receipt.end == JobEnd::kStopped) {
    std::fprintf(stderr, "banyan: stopped before the end of the input. %s",
                 ResumeHint(command).c_str());
  }
  if (receipt.end == JobEnd::kTooManyErrors) {
    std::fprintf(stderr, "banyan: stopped after more than %lld error rows (--max-errors). %s",
                 static_cast<long long>(command.job.max_errors), ResumeHint(command).c_str());
  }
  const bool all_well = receipt.end == JobEnd::kComplete && receipt.error_rows == 0;
  return all_well ? 0 : 1;
}

int RunAskCommand(AskCommand& command) {
  Resolve(command);
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (command.dry_run) {
    const JobEstimate estimate = EstimateAsk(model, command.run.engine, command.ask, command.job);
    std::fputs(estimate.ToText().c_str(), stderr);
    std::printf("%s\n", estimate.ToJson().c_str());
    return estimate.error_rows > 0 ? 1 : 0;
  }
  ProgressLine line(::isatty(STDERR_FILENO) == 1);
  if (!command.quiet) {
    command.job.progress = [&](const JobProgress& progress) { line.Show(progress); };
  }
  command.job.stop = [] { return stop_asked.load(); };
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { std::fputs(text.c_str(), stderr); };
  }
  JobReceipt receipt = RunAsk(model, command.run.engine, command.ask, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  return Finish(command, receipt);
}

constexpr const char* kHelp = R"(
Every line of the input is a document with its questions; every line of the output is an answer.
What documents and questions have in common is computed once, and every answer is what it would be
if it were asked alone. The job can be interrupted at any moment and taken up again.
)";

constexpr const char* kExamples = R"(
Examples
  A document with two questions:
    $ cat in.jsonl
    {"id":"d1","context":"The tower is 324 m high.","questions":[{"id":"q1","question":"How high is it?"},
     {"id":"q2","question":"Is it high?","choices":["yes","no"]}]}
    $ banyan ask -m model.gguf in.jsonl -o out.jsonl
  The same questions of every document, whose text is in the field 'body':
    $ banyan ask -m model.gguf 'docs/*.jsonl.gz' --field context=body --questions questions.txt -o out.jsonl
  From a pipe, as CSV, five samples with a majority vote:
    $ zcat docs.csv.gz | banyan ask -m model.gguf - --input-format csv --questions q.txt \
        --temperature 0.7 --samples 5 --vote -o out.csv
  What would it cost? How is it done?
    $ banyan ask -m model.gguf in.jsonl --dry-run
    $ banyan ask -m model.gguf in.jsonl --explain -o out.jsonl
  After Ctrl-C, a full disk or a power cut: the same command with --resume.
    $ banyan ask -m model.gguf in.jsonl -o out.jsonl --resume
  On eight machines, each its own part:
    $ banyan ask -m model.gguf in.jsonl --shard 3/8 -o out.3.jsonl

Input
  JSONL: {"id", "context", "questions": [{"id", "question", "choices"?}], "instruction"?}; a question
  may be a plain text; one question a line may be written {"id","context","question","question_id"?}.
  CSV: a header with the same names. .gz and .zst are unpacked. Other fields are carried through.
Output
  {"id","question_id","answer","finish_reason","tokens","prompt_tokens",…}; with choices also "choice"
  (from 0) and "scores"; with --samples "samples". A row that cannot be answered becomes
  {"id","question_id","error":{"kind","message","file","line"}}, and the job goes on.
Template variables
  {context} {question} {instruction} {few_shot} {choices} {id} {question_id} and every other field;
  {{ and }} are braces. In a chat the template is the user's message, without one the whole prompt.
Exit code
  0: every row answered; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

void AddInput(CLI::App& command, AskCommand& options) {
  const char* group = "Input";
  command
      .add_option("input", options.job.inputs,
                  "Files, quoted patterns such as 'docs/*.jsonl.gz', or - for standard input")
      ->required();
  command
      .add_option("--input-format", options.job.input_format,
                  "jsonl or csv (default: by the file's name, else jsonl)")
      ->group(group);
  command
      .add_option("--field", options.fields,
                  "OURS=THEIRS: the input calls a field otherwise, e.g. context=body")
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--questions", options.questions_file,
                  "Questions for every document: one a line, as text or JSONL")
      ->group(group);
  command.add_option("--limit", options.job.limit, "Only the first N records of the input")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--shard", options.shard, "i/n: every n-th document, from the i-th on")
      ->group(group);
  command
      .add_option("--max-errors", options.job.max_errors,
                  "Stop when there are more error rows than this (default: never)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void AddPrompt(CLI::App& command, AskCommand& options) {
  const char* group = "Prompt";
  options.instruction_text = kDefaultInstruction;
  command
      .add_option("--instruction", options.instruction_text,
                  "What the model is told first, as text or @FILE; a record may have its own")
      ->group(group);
  command
      .add_option("--template", options.template_text,
                  "Text or @FILE with {context}, {question} and other variables (below)")
      ->group(group);
  command
      .add_option("--few-shot", options.few_shot_file,
                  "Examples: a text that follows the instruction, or JSONL of "
                  "{\"context\"?,\"question\",\"answer\"}")
      ->group(group);
  command.add_option("--chat", options.chat, "The model's chat template: auto, on or off")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--thinking", options.thinking,
                  "on or off, where the chat template has it (enable_thinking)")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--too-long", options.too_long,
                  "A prompt beyond the model's window: fail (that row), truncate the context, or "
                  "split it and take the most confident answer")
      ->capture_default_str()
      ->group(group);
}

void AddAnswers(CLI::App& command, AskCommand& options) {
  const char* group = "Answers";
  AskOptions& ask = options.ask;
  command.add_option("--max-new", ask.max_new, "Tokens of an answer, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--stop", ask.stop, "A text that ends an answer; may be given several times")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--temperature", ask.sampling.temperature, "0: the most likely token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--top-k", ask.sampling.top_k, "Only the k most likely tokens; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--top-p", ask.sampling.top_p, "Only the tokens of this total probability")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command.add_option("--min-p", ask.sampling.min_p, "Only tokens of this share of the best one's")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command
      .add_option("--repetition-penalty", ask.sampling.repetition_penalty,
                  "Above 1: tokens of the answer become less likely")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command.add_option("--seed", ask.sampling.seed, "Other draws for another seed")->group(group);
  command.add_option("--samples", ask.samples, "Answers per question")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command.add_flag("--vote", ask.vote, "The answer is the most frequent sample")->group(group);
  command
      .add_option("--choices", options.choices,
                  "Questions with choices: score each option, or show them with letters and take "
                  "the most likely letter (score, letter)")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--choice-score", options.choice_score,
                  "An option's log-probability: mean per token, or sum")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--logprobs", ask.logprobs, "Add the log-probability of every token")
      ->group(group);
  command
      .add_option("--top-logprobs", ask.top_logprobs, "Add the N most likely tokens at each place")
      ->check(CLI::Range(0, 100))
      ->group(group);
  command.add_flag("--token-ids", ask.token_ids, "Add the tokens themselves")->group(group);
}

void AddOutput(CLI::App& command, AskCommand& options) {
  const char* group = "Output";
  JobOptions& job = options.job;
  command
      .add_option("-o,--output", job.output,
                  "The output file; .gz and .zst are packed, .csv is CSV; - for standard output")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--output-format", job.output_format,
                  "jsonl or csv (default: by name, else jsonl)")
      ->group(group);
  command
      .add_option("--columns", job.columns,
                  "CSV: fields that get a column of their own, separated by commas; all others "
                  "stand as JSON in the column 'more'")
      ->delimiter(',')
      ->group(group);
  command.add_flag("--ordered", job.ordered, "Rows in the order of the input")->group(group);
  command
      .add_flag("--resume", job.resume,
                "Go on where an interrupted job stopped (OUTPUT.journal says where)")
      ->group(group);
  command
      .add_flag("--retry-errors", job.retry_errors,
                "With --resume: ask again what ended in an error row, and replace it")
      ->group(group);
  command
      .add_flag("--overwrite", job.overwrite, "Begin anew although OUTPUT holds an unfinished job")
      ->group(group);
  command
      .add_option("--checkpoint", job.checkpoint_seconds,
                  "Seconds of work that an interruption may cost at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--receipt", options.receipt_file, "Write the receipt as JSON to this file")
      ->group(group);
  command
      .add_flag("--dry-run", options.dry_run,
                "Only say what it would cost: rows, tokens, sharing, time, memory")
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

}  // namespace

Command AddAsk(CLI::App& app) {
  CLI::App* command = app.add_subcommand("ask", "Ask many questions about many documents");
  command->footer(std::string(kHelp) + kExamples);
  auto options = std::make_shared<AskCommand>();
  AddInput(*command, *options);
  AddPrompt(*command, *options);
  AddAnswers(*command, *options);
  AddOutput(*command, *options);
  options->run.AddTo(*command, "mixed");
  for (CLI::Option* option : command->get_options()) {
    const bool common =
        option->get_positional() || option->check_lname("help") || option->check_lname("model");
    if (!common && option->get_group() == "Options") option->group("Machine");
  }
  return [options] { return RunAskCommand(*options); };
}

}  // namespace banyan::app
