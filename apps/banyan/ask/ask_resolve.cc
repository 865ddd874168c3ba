// From the text of the command line of `ask` to the options of the library.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "ask/ask_options.h"
#include "banyan/error.h"
#include "model/reader_offer.h"
#include "shell/option_text.h"

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
  ChooseDefaultReader(run, ReaderTask::kAsk, to_read && !quiet);
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
  for (const std::string& file : FilesOfModel(run.load.model)) {
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
  kv.Resolve(run.engine);
}

}  // namespace banyan::app
