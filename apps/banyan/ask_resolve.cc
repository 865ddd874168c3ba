// From the text of the command line of `ask` to the options of the library.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "ask_options.h"
#include "banyan/error.h"

namespace banyan::app {
namespace {

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

// A word of the command line that is no input: words with space between them, or with a question
// mark at the end, that name no file.
bool IsQuestion(const std::string& word) {
  std::error_code none;
  if (word == "-" || std::filesystem::exists(word, none)) return false;
  return word.find_first_of(" \t\n") != std::string::npos || word.ends_with('?');
}

char DelimiterOf(const std::string& text) {
  if (text.empty()) return 0;
  if (text == "tab" || text == "\\t" || text == "\t") return '\t';
  if (text == "," || text == ";" || text == "|") return text.front();
  throw Error(ErrorKind::kUsage,
              fmt::format("--delimiter: expected , ; | or tab; found '{}'", text));
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
  run.Resolve();
  job.delimiter = DelimiterOf(delimiter);
  if (job.output_format == "text") {
    if (job.output != "-") {
      throw Error(ErrorKind::kUsage,
                  "--output-format text: is for reading and goes to standard output, without -o");
    }
    reading_ = true;
    job.output_format.clear();
  }
  ask.chat = OneOf<ChatUse>(
      chat, "--chat", {{"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}});
  ask.thinking = OneOf<bool>(thinking, "--thinking", {{"on", true}, {"off", false}});
  ask.choices = OneOf<ChoiceMode>(choices, "--choices",
                                  {{"score", ChoiceMode::kScore}, {"letter", ChoiceMode::kLetter}});
  ask.choice_score = OneOf<ChoiceScore>(choice_score, "--choice-score",
                                        {{"mean", ChoiceScore::kMean}, {"sum", ChoiceScore::kSum}});
  ask.too_long = OneOf<TooLong>(
      too_long, "--too-long",
      {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}, {"split", TooLong::kSplit}});
  ask.instruction = TextOrFile(instruction_text, "--instruction");
  ask.prompt_template = TextOrFile(template_text, "--template");
  if (!few_shot_file.empty()) ask.few_shot = ReadFile(few_shot_file, "--few-shot");
  if (!schema_file.empty()) {
    ask.json_schema = ReadFile(schema_file, "--json-schema");
    if (ask.json_schema.empty()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--json-schema: {}: the file is empty", schema_file));
    }
  }
  if (!questions_file.empty()) {
    ask.questions = ReadFile(questions_file, "--questions");
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
  if (!run.load.adapter.empty()) {
    for (const char* name : {"/adapter_config.json", "/adapter_model.safetensors"}) {
      job.other_files.emplace_back("--adapter", run.load.adapter + name);
    }
  }
  ParseFields(fields, job);
  ParseShard(shard, job);
  ResolveWords();
  ResolveMode();
}

}  // namespace banyan::app
