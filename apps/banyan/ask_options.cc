#include "ask_options.h"

#include <utility>

namespace banyan::app {
namespace {

constexpr const char* kHelp = R"(
Answers questions about documents: text files to read the answers of, or rows for programs. What
documents and questions have in common is computed once, and every answer is what it would be if it
were asked alone. A job of rows can be interrupted at any moment and taken up again.
)";

constexpr const char* kExamples = R"(
Examples
  A file and two questions; a file and a prompt for questions:
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
  What would it cost? How is it done?
    $ banyan ask -m model.gguf in.jsonl --dry-run
    $ banyan ask -m model.gguf in.jsonl --explain -o out.jsonl
    $ banyan ask -m model.gguf in.jsonl --show-prompt
  After Ctrl-C, a full disk or a power cut: the same command with --resume.
    $ banyan ask -m model.gguf in.jsonl -o out.jsonl --resume
  On eight machines, each its own part:
    $ banyan ask -m model.gguf in.jsonl --shard 3/8 -o out.3.jsonl

Input
  .txt, .md, .html, .pdf: a file is a document. JSONL: {"id"?, "context", "questions": [{"id"?,
  "question", "choices"?}], "instruction"?}; a question may be a plain text; one question a line may be
  written {"id"?,"context","question","question_id"?}. CSV and TSV: a header with the same names. .gz and
  .zst are unpacked. Folders are searched. Other fields are carried through.
Output
  On a terminal: text to read. Else rows: {"id","question_id","question","answer","finish_reason","tokens",
  "prompt_tokens",…}; the answer is null when the document does not say; "start" and "end" are its place in
  the document, in characters, where it is one; "confidence" is the probability that the answer is right,
  where the model's card tells it, and "withheld" what --min-confidence kept back; with choices also "choice" (from 0) and "scores"; with
  --samples "samples". A row that cannot be answered becomes
  {"id","question_id","question","error":{"kind","message","file","line"}}, and the job goes on.
Template variables
  {context} {question} {instruction} {few_shot} {choices} {id} {question_id} and every other field;
  {{ and }} are braces. In a chat the template is the user's message, without one the whole prompt.
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
  command
      .add_option("--input-format", options.job.input_format,
                  "What the files hold (default: by name, else by how they begin)")
      ->type_name("jsonl|csv|tsv|text|html|pdf")
      ->group(group);
  command
      .add_option("--delimiter", options.delimiter,
                  "Between the cells of CSV, in and out: , ; | or tab (default: the input's header "
                  "tells; the output has commas)")
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
  command
      .add_flag("--show-prompt", options.show_prompt,
                "Only print what the model would read for the first record (or --limit N of them)")
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
  command
      .add_option("--part-tokens", options.ask.part_tokens,
                  "With --too-long split: tokens of the document in a part (default: as many as "
                  "fit); short parts are read better than long ones")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command
      .add_flag("--reduce", options.ask.reduce,
                "With --too-long split: the model reads the passages around the best answers of "
                "the parts together, and answers once more")
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
  command
      .add_flag_function(
          "--copy,!--no-copy", [&ask](std::int64_t count) { ask.copy = count > 0; },
          "Free answers are copied from the document, word for word, or are none: no answer has "
          "words that the document does not (default: where the model's card says so)")
      ->group(group);
  command
      .add_option("--min-confidence", ask.min_confidence,
                  "Free answers that are right with less than this probability become null; needs "
                  "a model whose card tells it (docs/model-card.md)")
      ->check(CLI::Range(0.0, 1.0))
      ->group(group);
  command
      .add_option("--regex", ask.regex,
                  "What free answers must match, from their first character to their last")
      ->group(group);
  command
      .add_option(
          "--json-schema", options.schema_file,
          "File with a JSON Schema: free answers are JSON that fits it, and rows have it as "
          "`value` too")
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
                  "An option's log-probability: sum, mean per token, or the sum less what it is "
                  "without the document (prior, for labels that are no words of the text)")
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
                  "The output file: .jsonl, .csv, .tsv or .md (a Markdown table), and .gz or .zst "
                  "to pack it; - for standard output")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--output-format", job.output_format,
                  "How the output looks, whatever its name; text is for reading (default on a "
                  "terminal)")
      ->type_name("jsonl|csv|tsv|md|text")
      ->group(group);
  command
      .add_option("--columns", job.columns,
                  "Tables: fields that get a column of their own, separated by commas; all others "
                  "stand as JSON in the column 'more'")
      ->delimiter(',')
      ->group(group);
  command
      .add_flag("--csv-safe", job.csv_safe,
                "CSV: an apostrophe before cells that a spreadsheet would take for formulas")
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
      .add_flag(
          "--overwrite", job.overwrite,
          "Begin anew whatever OUTPUT holds; with --resume: keep what is the job's own, write "
          "the rest again")
      ->group(group);
  command
      .add_option("--checkpoint", job.checkpoint_seconds,
                  "Seconds of work that an interruption may cost at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--receipt", job.receipt, "Write the receipt as JSON to this file")
      ->group(group);
  command
      .add_flag("--dry-run", options.dry_run,
                "Only say what it would cost: rows, tokens, sharing, time, memory")
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

}  // namespace

void AskCommand::AddTo(CLI::App& command) {
  command.footer(std::string(kHelp) + kExamples);
  AddInput(command, *this);
  AddPrompt(command, *this);
  AddAnswers(command, *this);
  AddOutput(command, *this);
  // What these take, for the help and for completion.
  for (const auto& [name, values] : {std::pair<const char*, const char*>("--chat", "auto|on|off"),
                                     {"--thinking", "on|off"},
                                     {"--too-long", "fail|truncate|split"},
                                     {"--choices", "score|letter"},
                                     {"--choice-score", "sum|mean|prior"},
                                     {"--questions", "FILE"},
                                     {"--few-shot", "FILE"},
                                     {"--json-schema", "FILE"},
                                     {"--output", "FILE"},
                                     {"--receipt", "FILE"}}) {
    command.get_option(name)->type_name(values);
  }
  kv.AddTo(command);
  run.model_by_default = true;
  run.AddTo(command, "mixed");
  for (CLI::Option* option : command.get_options()) {
    const bool common =
        option->get_positional() || option->check_lname("help") || option->check_lname("model");
    if (!common && option->get_group() == "Options") option->group("Machine");
  }
}

}  // namespace banyan::app
