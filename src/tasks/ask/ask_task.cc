// Checks options that do not go together, and makes what all records share; then `banyan ask` as
// library calls.
#include "tasks/ask/ask_task.h"

#include <fmt/format.h>
#include <algorithm>
#include <vector>

#include "banyan/ask.h"
#include "banyan/constrain.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/options/task_options.h"
#include "text/unicode.h"

namespace banyan {

namespace {

void CheckOptions(const AskOptions& options) {
  CheckValues(options);
  if (options.samples > 1 && options.sampling.temperature <= 0.0f) {
    Throw(ErrorKind::kUsage,
          "--samples {}: without a temperature all of them are equal; add --temperature",
          options.samples);
  }
  if (!options.regex.empty() && !options.json_schema.empty()) {
    Throw(ErrorKind::kUsage, "--regex and --json-schema: give one of them");
  }
  const bool copy = options.copy.value_or(false);
  if (copy && !(options.regex.empty() && options.json_schema.empty())) {
    Throw(ErrorKind::kUsage, "--copy: give either it or --regex or --json-schema");
  }
  if (options.thinking && copy) {
    Throw(ErrorKind::kUsage, "--thinking on: thoughts are not copied from the text (--copy)");
  }
  if (options.thinking && !(options.regex.empty() && options.json_schema.empty())) {
    Throw(ErrorKind::kUsage, "--thinking on: thoughts would not match --regex or --json-schema");
  }
  if (options.vote && options.samples < 2) {
    Throw(ErrorKind::kUsage, "--vote needs --samples of 2 or more");
  }
  if ((options.part_tokens != 0 || options.reduce) && options.too_long != TooLong::kSplit) {
    Throw(ErrorKind::kUsage, "{}: needs --too-long split",
          options.reduce ? "--reduce" : "--part-tokens");
  }
}

// --min-confidence needs a calibration in the model's card.
void CheckCalibrated(const ModelCard& card) {
  if (card.CalibrationOf("ask", "answer") != nullptr) return;
  Throw(ErrorKind::kUsage,
        "--min-confidence: the model's card does not say how to tell the confidence of an answer "
        "(docs/model-card.md)");
}

// Null: answers are not constrained.
std::shared_ptr<const Constraint> MakeConstraint(const AskOptions& options, const Model& model) {
  const bool regex = !options.regex.empty();
  if (!regex && options.json_schema.empty()) return nullptr;
  ConstraintOptions constraint;
  constraint.end_tokens = model.end_tokens();
  try {
    const std::shared_ptr<const TokenTrie> trie = MakeTokenTrie(*model.text());
    return regex ? Constraint::FromRegex(options.regex, trie, constraint)
                 : Constraint::FromJsonSchema(options.json_schema, trie, constraint);
  } catch (const Error& e) {
    Throw(ErrorKind::kUsage, "{}: {}", regex ? "--regex" : "--json-schema", e.what());
  }
}

// What the options hold as texts: an expression, a schema, a template, questions.
void CheckTexts(const AskOptions& options) {
  try {
    if (!options.regex.empty()) Constraint::CheckRegex(options.regex);
    if (!options.json_schema.empty()) Constraint::CheckJsonSchema(options.json_schema);
  } catch (const Error& e) {
    Throw(ErrorKind::kUsage, "{}: {}", options.regex.empty() ? "--json-schema" : "--regex",
          e.what());
  }
  if (!options.prompt_template.empty()) {
    const std::vector<TemplatePiece> pieces = ParsePromptTemplate(options.prompt_template);
    const bool asks = std::ranges::any_of(pieces, [](const TemplatePiece& piece) {
      return piece.is_variable && piece.text == "question";
    });
    if (!asks) Throw(ErrorKind::kUsage, "template: expected the variable {{question}} in it");
  }
  if (!options.questions_name.empty()) ReadQuestions(options.questions, options.questions_name);
}

void CheckQuestion(const std::string& question) {
  if (question.find_first_not_of(" \t\r\n") != std::string::npos && IsValidUtf8(question)) return;
  Throw(ErrorKind::kUsage, "a question: expected a text that is not empty, in UTF-8");
}

// Every question is a chat turn of its own. Several turns before the first answer are no prompt
// that a person would write, so their answers are no baseline.
void RefuseQuestionsInARow(const EngineOptions& options) {
  if (options.strategy != Strategy::kSequential) return;
  Throw(ErrorKind::kUsage,
        "--strategy sequential: a chat template for each question would stand in one prompt. "
        "'python3 -m eval.seqbatch' asks numbered questions in one prompt; 'banyan bench' times "
        "answers that follow one another");
}

}  // namespace

AskTask::AskTask(std::shared_ptr<Model> model, const AskOptions& options, std::string adapter)
    : adapter_(std::move(adapter)) {
  CheckOptions(options);
  settings_.options = options;
  settings_.text = model->text();
  if (settings_.text == nullptr) {
    Throw(ErrorKind::kUnsupported, "ask: the model's files have no tokenizer");
  }
  settings_.constraint = MakeConstraint(options, *model);
  settings_.model = std::move(model);
  if (options.choices == ChoiceMode::kAuto && (!settings_.model->card(adapter_).chooses_by_letter ||
                                               options.choice_score != ChoiceScore::kSum)) {
    settings_.options.choices = ChoiceMode::kScore;
  }
  bool copies = ModelOf(adapter_).copies;
  for (const std::string& adapter : settings_.model->adapters()) copies |= ModelOf(adapter).copies;
  if (copies) settings_.trie = MakeTokenTrie(*settings_.text);
  // With separate adapters, each record's own card counts.
  if (options.min_confidence > 0.0 && settings_.model->adapters().empty()) {
    CheckCalibrated(settings_.model->card());
  }
  settings_.writer = std::make_unique<PromptWriter>(settings_.text, options);
  settings_.encoders =
      std::make_unique<EncoderPool>(settings_.text, /*add_bos=*/!settings_.writer->uses_chat());
  for (const TemplatePiece& piece : ParsePromptTemplate(options.prompt_template)) {
    settings_.template_shows_choices |= piece.is_variable && piece.text == "choices";
  }
  SetQuestions(options.question_list);
  if (!options.questions_name.empty()) {
    const std::vector<AskQuestion> read = ReadQuestions(options.questions, options.questions_name);
    common_.insert(common_.end(), read.begin(), read.end());
  }
  std::vector<AskQuestion> numbered = common_;
  NumberQuestions(numbered);
  for (const AskQuestion& question : numbered) {
    if (question.problem) {
      Throw(ErrorKind::kUsage, "{}: {}", options.questions_name, question.problem->message);
    }
  }
}

bool AskTask::rates_choices() const {
  // CalibrationOf would take that of other answers for it.
  const auto& confidence = settings_.model->card(adapter_).confidence;
  const auto kinds = confidence.find("ask");
  const bool letters = settings_.options.choices != ChoiceMode::kScore;
  return kinds != confidence.end() &&
         kinds->second.contains(letters ? "choice-letter" : "choice-sum");
}

AskModel AskTask::ModelOf(const std::string& adapter) const {
  const AskOptions& options = settings_.options;
  AskModel model;
  model.card = &settings_.model->card(adapter);
  model.may_exceed = !options.copy;
  model.copies =
      options.copy.value_or(model.card->copies && !settings_.constraint && !options.thinking);
  return model;
}

void AskTask::SetQuestions(const std::vector<std::string>& questions) {
  common_.clear();
  for (const std::string& question : questions) {
    CheckQuestion(question);
    common_.emplace_back().question = question;
  }
}

void AskTask::SetQuestion(AskQuestion question) {
  CheckQuestion(question.question);
  common_.clear();
  common_.push_back(std::move(question));
}

Json AskTask::Parameters() const {
  const AskOptions& options = settings_.options;
  Json parameters = IdentityOf(options);
  parameters["--chat"] = settings_.writer->uses_chat() ? "on" : "off";
  parameters["--copy"] = ModelOf(adapter_).copies;
  parameters["questions"] = options.question_list;
  parameters["--questions"] = TextParameter(options.questions);
  // Cards are part of the identity: the same weights may come with another card.
  std::vector<std::string> adapters = settings_.model->adapters();
  adapters.insert(adapters.begin(), "");
  for (const std::string& adapter : adapters) {
    const std::string card = settings_.model->card(adapter).ToJson();
    if (card == ModelCard().ToJson()) continue;
    parameters[adapter.empty() ? "model card" : "model card of " + adapter] = card;
  }
  return parameters;
}

// Rows that hold one question each may repeat the document's id when they name their question.
std::string AskTask::Identity(const InputRow& row) const {
  Json identity = Json::array({IdOf(row.value)});
  if (!row.value.contains("questions") && row.value.contains("question_id")) {
    identity.push_back(row.value.at("question_id"));
  }
  return DumpJson(identity);
}

std::unique_ptr<RecordWork> AskTask::Start(const InputRow& row) {
  const std::string own = AdapterOfRow(row, *settings_.model);
  const AskModel model = ModelOf(own.empty() ? adapter_ : own);
  if (settings_.options.min_confidence > 0.0) CheckCalibrated(*model.card);
  return std::make_unique<AskWork>(settings_, model, ReadAskRecord(row.value, common_),
                                   RowPlace{row.file, row.line});
}

TableColumns AskTask::Columns() const {
  return {{"id", "question", "answer", "confidence", "start", "end", "question_id", "finish_reason",
           "tokens"},
          {"id", "question", "answer"}};
}

OutputRow AskTask::ErrorRow(const InputRow& row, const RowProblem& problem) const {
  Json id, question_id, question;
  const auto found = row.value.find("id");
  if (found != row.value.end() && (found->is_string() || IsNumber(*found))) id = *found;
  if (!row.value.contains("questions") && row.value.contains("question_id")) {
    const Json& given = row.value.at("question_id");
    if (given.is_string() || IsNumber(given)) question_id = given;
  }
  const auto asked = row.value.find("question");
  if (asked != row.value.end() && asked->is_string()) question = *asked;
  // An id with a replacement character is not the id of the file.
  if (id.is_string() && id.get_ref<const std::string&>().find("\uFFFD") != std::string::npos) {
    id = nullptr;
  }
  return AskErrorRow(id, question_id, question, problem, {row.file, row.line}, row.value);
}

std::vector<std::vector<std::string>> NeededColumns(const AskOptions& ask) {
  std::vector<std::vector<std::string>> needed = {{"context"}};
  if (ask.question_list.empty() && ask.questions_name.empty()) {
    needed.push_back({"question", "questions"});
  }
  return needed;
}

void CheckAsk(const EngineOptions& engine_options, const AskOptions& ask) {
  RefuseQuestionsInARow(engine_options);
  CheckOptions(ask);
  CheckTexts(ask);
}

JobReceipt RunAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const AskOptions& ask, const JobOptions& job) {
  CheckAsk(engine_options, ask);
  const JobOptions named = WithIdColumn(job);
  CheckJob(named);
  AskTask task(model, ask);
  if (ask.thinking && !task.thinking_matters() && job.notice) {
    job.notice("--thinking on: changes nothing, the model's chat template has no such switch");
  }
  return JobRunner(model, engine_options, task, named).Run();
}

JobEstimate EstimateAsk(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const AskOptions& ask, const JobOptions& job) {
  RefuseQuestionsInARow(engine_options);
  CheckJob(job);
  AskTask task(model, ask);
  return EstimateJob(model, engine_options, task, job);
}

std::string ShowPrompts(std::shared_ptr<Model> model, const AskOptions& ask,
                        const JobOptions& job) {
  CheckJob(job);
  AskTask task(model, ask);
  JobOptions first = job;
  if (first.limit < 0) first.limit = 1;
  InputReader input(InputOf(first));
  return ShowTaskPrompts(*model->text(), task, input, first.limit);
}

}  // namespace banyan
