// From the text of the command line of `ask` to the options of the library.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "ask_options.h"
#include "banyan/error.h"
#include "option_text.h"
#include "reader_offer.h"

namespace banyan::app {
namespace {

// A word of the command line that is no input: words with space between them, or with a question
// mark at the end, that name no file.
bool IsQuestion(const std::string& word) {
  std::error_code none;
  if (word == "-" || std::filesystem::exists(word, none)) return false;
  return word.find_first_of(" \t\n") != std::string::npos || word.ends_with('?');
}

}  // namespace

// The first word is an input whatever it looks like.
void AskCommand::ResolveWords() {
  for (const std::string& word : words) {
    if (!job.inputs.empty() && IsQuestion(word)) {
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
  ChooseDefaultReader(run, ReaderTask::kAsk, to_read && !quiet);
  run.Resolve();
  if (!delimiter.empty()) job.delimiter = ParseDelimiter(delimiter, "--delimiter");
  if (job.output_format == "text") {
    if (job.output != "-") {
      throw Error(ErrorKind::kUsage,
                  "--output-format text: is for reading and goes to standard output, without -o");
    }
    reading_ = true;
    job.output_format.clear();
  }
  ask.chat = NamedValue(chat, "--chat", ChatNames());
  ask.thinking = NamedValue<bool>(thinking, "--thinking", {{"on", true}, {"off", false}});
  ask.choices = NamedValue(choices, "--choices", ChoiceModeNames());
  ask.choice_score = NamedValue(choice_score, "--choice-score", ChoiceScoreNames());
  ask.too_long = NamedValue(too_long, "--too-long", TooLongNames());
  ask.instruction = TextOrFile(instruction_text, "--instruction");
  ask.prompt_template = TextOrFile(template_text, "--template");
  if (!few_shot_file.empty()) ask.few_shot = ReadOptionFile(few_shot_file, "--few-shot");
  if (!schema_file.empty()) {
    ask.json_schema = ReadOptionFile(schema_file, "--json-schema");
    if (ask.json_schema.empty()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--json-schema: {}: the file is empty", schema_file));
    }
  }
  if (!questions_file.empty()) {
    ask.questions = ReadOptionFile(questions_file, "--questions");
    ask.questions_name = questions_file;
  }
  for (const auto& [option, value] :
       {std::pair<const char*, const std::string&>("--instruction", instruction_text),
        {"--template", template_text}}) {
    if (value.starts_with('@')) job.other_files.emplace_back(option, value.substr(1));
  }
  if (!few_shot_file.empty()) job.other_files.emplace_back("--few-shot", few_shot_file);
  if (!schema_file.empty()) job.other_files.emplace_back("--json-schema", schema_file);
  if (!questions_file.empty()) job.other_files.emplace_back("--questions", questions_file);
  for (const std::string& file : FilesOfModel(run.load.model)) {
    job.other_files.emplace_back("the model", file);
  }
  for (const std::string& folder : run.AdapterFolders()) {
    for (const char* name :
         {"/adapter_config.json", "/adapter_model.safetensors", "/banyan.json"}) {
      job.other_files.emplace_back("--adapter", folder + name);
    }
  }
  ParseFieldOptions(
      fields, {"id", "context", "questions", "question", "choices", "instruction", "question_id"},
      job);
  ParseShardOption(shard, job);
  ResolveWords();
  ResolveMode();
  kv.Resolve(run.engine);
}

}  // namespace banyan::app
