// From the text of the command line of `ask` to the options of the library.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
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

}  // namespace

void AskCommand::Resolve() {
  run.Resolve();
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
  ParseFields(fields, job);
  ParseShard(shard, job);
  CheckJob(job);
}

}  // namespace banyan::app
