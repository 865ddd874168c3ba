// Checks the options, plans every category once, and reads rows as documents; then `banyan extract`
// as library calls.
#include "tasks/extract/extract_task.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "banyan/extract.h"
#include "banyan/row_columns.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/extract/extract_panel.h"
#include "tasks/extract/extract_report.h"
#include "tasks/extract/extract_work.h"
#include "tasks/input/field_names.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/options/task_options.h"
#include "text/unicode.h"

namespace banyan {

namespace {

constexpr const char* kExtractChatTemplate = "{details}{document}";
constexpr const char* kExtractPlainTemplate = "{instruction}\n\n{details}{document}\n\nAnswer:\n";

// The name of a kind of values in a card's calibrations.
const char* NameOf(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNumber:
      return "number";
    case ValueKind::kInteger:
      return "integer";
    case ValueKind::kBoolean:
      return "boolean";
    case ValueKind::kDate:
      return "date";
    case ValueKind::kEnum:
      return "enum";
    case ValueKind::kList:
    case ValueKind::kObjects:
      return "list";
    default:
      return "text";
  }
}

void CheckOptions(const ExtractOptions& options) {
  CheckValues(options);
  if (options.stack > 1 && options.values == ValueMode::kSequential) {
    Throw(ErrorKind::kUsage, "--stack: expected --values skeleton or isolated, found sequential");
  }
  if (options.fuse == FuseMode::kTokens && options.values == ValueMode::kSequential) {
    Throw(ErrorKind::kUsage, "--fuse: expected values with --values sequential, found tokens");
  }
}

void CheckCategory(const ExtractSchema& schema, const std::string& category) {
  if (category.empty() || schema.Find(category) != nullptr) return;
  Throw(ErrorKind::kUsage, "--category: the schema has no category '{}'", category);
}

// What the prompt writer of `ask` needs to know. There is no question: the template of values
// follows the document.
AskOptions WriterOptions(const ExtractOptions& options, bool chat) {
  AskOptions ask;
  ask.instruction = options.instruction;
  ask.chat = options.chat;
  ask.prompt_template = options.prompt_template;
  if (ask.prompt_template.empty())
    ask.prompt_template = chat ? kExtractChatTemplate : kExtractPlainTemplate;
  const std::vector<TemplatePiece> pieces = ParsePromptTemplate(ask.prompt_template);
  const auto names = [&](std::string_view name) {
    return std::ranges::any_of(pieces, [&](const TemplatePiece& piece) {
      return piece.is_variable && piece.text == name;
    });
  };
  if (!names("document") && !names("text")) {
    Throw(ErrorKind::kUsage, "template: expected the variable {{document}} in it");
  }
  constexpr std::array kOfStacks = {"document", "text",     "question", "instruction", "attributes",
                                    "examples", "category", "names",    "details"};
  for (const TemplatePiece& piece : pieces) {
    if (options.stack == 1 || !piece.is_variable) continue;
    if (std::ranges::find(kOfStacks, piece.text) == kOfStacks.end()) {
      Throw(ErrorKind::kUsage,
            "template: {{{}}} is of one document, which --stack {} does not know", piece.text,
            options.stack);
    }
  }
  if (!names("question")) ask.prompt_template += "{question}";
  return ask;
}

// What a flat row and its table have beside values.
constexpr std::array kOtherColumns = {"id",        "category",      "confidence",    "units",
                                      "raw",       "reasons",       "truncated",     "parts",
                                      "tokens",    "prompt_tokens", "cut_bytes",     "stacked",
                                      "sources",   "agreeing",      "conflicts",     "error",
                                      "more",      "error_kind",    "error_message", "error_file",
                                      "error_line"};
constexpr std::string_view kValuePrefix = "value.";
const std::string kConfidencePrefix = "confidence.";  // of a column, before an attribute's name

bool IsExtractField(const std::string& name) {
  return name == "id" || name == "text" || name == "category" || name == "documents";
}

}  // namespace

JobOptions OfDocuments(JobOptions job) {
  job.document_field = "text";
  job.other_document_field = "context";
  job.needed_columns = {{"text"}};
  return job;
}

// Names of the row's own fields keep their meaning.
std::string ColumnOf(const std::string& name) {
  const bool taken = std::ranges::find(kOtherColumns, name) != kOtherColumns.end() ||
                     name.starts_with(kValuePrefix) || name.starts_with(kConfidencePrefix);
  return taken ? std::string(kValuePrefix) + name : name;
}

std::vector<FlatColumn> FlatColumns(const ExtractSchema& schema) {
  std::vector<FlatColumn> columns;
  for (const ExtractCategory& category : schema.categories) {
    for (const Leaf& leaf : LeavesOf(category)) {
      const bool with_unit = !leaf.attribute->units.empty();
      const FlatColumn column{ColumnOf(leaf.name),
                              with_unit ? ValueKind::kText : leaf.attribute->kind};
      const auto found = std::ranges::find(columns, column.name, &FlatColumn::name);
      if (found == columns.end()) {
        columns.push_back(column);
      } else if (found->kind != column.kind) {
        found->kind = ValueKind::kSchema;
      }
    }
  }
  return columns;
}

double ExtractSettings::Confidence(const ExtractAttribute& attribute, const WrittenValue& written,
                                   const ModelCard& card) const {
  const char* kind = written.json.is_null() ? "null" : NameOf(attribute.kind);
  const Calibration* calibration = card.CalibrationOf("extract", kind);
  if (calibration == nullptr) return std::exp(written.logprob);
  return calibration->ProbabilityOf(written.logprob, written.tokens);
}

double ExtractSettings::LeastConfidence(const ExtractAttribute& attribute,
                                        const ModelCard& card) const {
  // What is right less than once in twenty times helps nobody.
  const bool known = card.CalibrationOf("extract", NameOf(attribute.kind)) != nullptr;
  return options.min_confidence.value_or(known && attribute.nullable ? 0.05 : 0.0);
}

// Values that see what later ones write before them, and documents side by side, need attention in
// every layer. Where layers keep states, values branch from the document's instead.
void FitToStates(ExtractOptions& options) {
  if (options.stack > 1) {
    Throw(ErrorKind::kUnsupported,
          "--stack {}: the model's layers keep states, and several documents in one prompt need "
          "attention in every layer; leave --stack out",
          options.stack);
  }
  if (options.values != ValueMode::kSkeleton) return;
  options.values = ValueMode::kIsolated;
  options.gaps = false;
}

ExtractTask::ExtractTask(std::shared_ptr<Model> model, const ExtractOptions& options,
                         const std::string& adapter)
    : adapter_(adapter) {
  CheckOptions(options);
  settings_.options = options;
  if (model->keeps_states()) FitToStates(settings_.options);
  if (options.instruction.empty()) {
    settings_.options.instruction =
        options.stack > 1 ? kDefaultStackInstruction : kDefaultExtractInstruction;
  }
  settings_.text = model->text();
  if (settings_.text == nullptr) {
    Throw(ErrorKind::kUnsupported, "extract: the model's files have no tokenizer");
  }
  settings_.schema = ParseExtractSchema(options.schema, options.schema_name);
  if (options.flat) {
    std::vector<std::string> columns;
    for (FlatColumn& column : FlatColumns(settings_.schema)) {
      columns.push_back(std::move(column.name));
    }
    settings_.names = CarriedNames("extract", std::move(columns));
  }
  settings_.slots = {settings_.text, MakeTokenTrie(*settings_.text), model->end_tokens(),
                     &settings_.options};
  for (const ExtractCategory& category : settings_.schema.categories) {
    settings_.plans.emplace(category.name,
                            PlanCategory(category, settings_.slots, model->context_length()));
  }
  CheckCategory(settings_.schema, options.category);
  settings_.model = std::move(model);
  const bool chat = options.chat == ChatUse::kOn ||
                    (options.chat == ChatUse::kAuto && settings_.text->has_chat_template());
  settings_.writer =
      std::make_unique<PromptWriter>(settings_.text, WriterOptions(settings_.options, chat));
  settings_.encoders =
      std::make_unique<EncoderPool>(settings_.text, /*add_bos=*/!settings_.writer->uses_chat());
}

Json ExtractTask::Parameters() const {
  const ExtractOptions& options = settings_.options;
  Json parameters = IdentityOf(options);
  parameters["--chat"] = settings_.writer->uses_chat() ? "on" : "off";
  const ModelCard& card = settings_.model->card(adapter_);
  parameters["--min-confidence"] = settings_.LeastConfidence(ExtractAttribute(), card);
  parameters["the model's card"] = TextParameter(card.ToJson());
  return parameters;
}

std::string ExtractTask::Identity(const InputRow& row) const { return DumpJson(IdOf(row.value)); }

ExtractRecord ExtractTask::Read(const InputRow& row) const {
  if (HasDocuments(row)) {
    Throw(ErrorKind::kInput, "'documents': --stack {} takes records with one 'text' each",
          settings_.options.stack);
  }
  const auto text = row.value.find("text");
  if (text == row.value.end() || text->is_null()) {
    Throw(ErrorKind::kInput, "expected the field 'text' or 'documents', found none{}",
          DidYouMeanField(row.value, "text"));
  }
  if (!text->is_string()) {
    Throw(ErrorKind::kInput, "'text': expected text, found {}", TypeName(*text));
  }
  ExtractRecord record = ReadCommon(row);
  record.text = text->get<std::string>();
  return record;
}

ExtractEntity ExtractTask::ReadDocuments(const InputRow& row) const {
  const auto text = row.value.find("text");
  if (text != row.value.end() && !text->is_null()) {
    Throw(ErrorKind::kInput, "expected the field 'text' or 'documents', found both");
  }
  return ReadEntity(row, ReadCommon(row));
}

ExtractRecord ExtractTask::ReadCommon(const InputRow& row) const {
  ExtractRecord record;
  record.id = IdOf(row.value);
  std::string category = settings_.options.category;
  const auto given = row.value.find("category");
  if (given != row.value.end() && !given->is_null()) {
    if (!given->is_string()) {
      Throw(ErrorKind::kInput, "'category': expected text, found {}", TypeName(*given));
    }
    if (settings_.schema.categories.size() > 1 ||
        settings_.schema.Find(given->get<std::string>())) {
      category = given->get<std::string>();
    }
  }
  if (category.empty() && settings_.schema.categories.size() == 1) {
    category = settings_.schema.categories.front().name;
  }
  const auto plan = settings_.plans.find(category);
  if (plan == settings_.plans.end() && category.empty()) {
    Throw(ErrorKind::kInput, "expected the field 'category', found none (or --category NAME)");
  }
  if (plan == settings_.plans.end()) {
    Throw(ErrorKind::kInput, "'category': the schema has no category '{}'", category);
  }
  record.plan = &plan->second;
  const std::string adapter = AdapterOfRow(row, *settings_.model);
  record.card = &settings_.model->card(adapter.empty() ? adapter_ : adapter);
  for (const auto& [name, value] : row.value.items()) {
    if (!IsExtractField(name)) record.carried[name] = value;
  }
  return record;
}

std::unique_ptr<RecordWork> ExtractTask::Start(const InputRow& row) {
  if (!HasDocuments(row) || settings_.options.stack > 1) return StartStack({&row, 1});
  return std::make_unique<ExtractPanel>(settings_, ReadDocuments(row));
}

std::string ExtractTask::StackName(const InputRow& row) const {
  return Read(row).plan->category->name;
}

std::unique_ptr<RecordWork> ExtractTask::StartStack(std::span<const InputRow> rows) {
  return std::make_unique<ExtractWork>(settings_, ReadAll(rows));
}

std::vector<ExtractRecord> ExtractTask::ReadAll(std::span<const InputRow> rows) const {
  std::vector<ExtractRecord> records;
  for (const InputRow& row : rows) records.push_back(Read(row));
  return records;
}

// Attributes of several categories that have one name share a column.
TableColumns ExtractTask::Columns() const {
  TableColumns columns;
  columns.shown = {"id"};
  const bool named =
      settings_.schema.categories.size() > 1 || !settings_.schema.categories.front().name.empty();
  if (named) columns.shown.emplace_back("category");
  for (FlatColumn& column : FlatColumns(settings_.schema)) {
    columns.shown.push_back(std::move(column.name));
  }
  columns.all = columns.shown;
  for (const ExtractCategory& category : settings_.schema.categories) {
    for (const Leaf& leaf : LeavesOf(category)) {
      const std::string sure = kConfidencePrefix + leaf.name;
      if (std::ranges::find(columns.all, sure) == columns.all.end()) columns.all.push_back(sure);
    }
  }
  for (const char* name : {"reasons", "units", "raw", "truncated", "tokens", "prompt_tokens"}) {
    columns.all.emplace_back(name);
  }
  return columns;
}

OutputRow ExtractTask::ErrorRow(const InputRow& row, const RowProblem& problem) const {
  OutputRow error;
  const auto id = row.value.find("id");
  const bool usable = id != row.value.end() && (id->is_string() || IsNumber(*id));
  error.fields["id"] = usable ? *id : Json();
  // An id with a replacement character is not the id of the file.
  if (usable && id->is_string() &&
      id->get_ref<const std::string&>().find("\uFFFD") != std::string::npos) {
    error.fields["id"] = nullptr;
  }
  error.fields["error"] = {{"kind", ErrorKindName(problem.kind)},
                           {"message", problem.message},
                           {"file", row.file},
                           {"line", row.line}};
  error.error = true;
  error.identity = DumpJson(error.fields);
  settings_.names.Add(row.value, IsExtractField, error.fields);
  return error;
}

std::string ExtractTask::ShowPrompt(std::span<const InputRow> rows) {
  if (rows.size() == 1 && HasDocuments(rows.front()) && settings_.options.stack == 1) {
    return ExtractPanel(settings_, ReadDocuments(rows.front())).Show();
  }
  return ExtractWork(settings_, ReadAll(rows)).Show();
}

std::vector<std::string> ExtractTask::Layouts(std::span<const InputRow> rows) {
  if (rows.size() == 1 && HasDocuments(rows.front()) && settings_.options.stack == 1) {
    return ExtractPanel(settings_, ReadDocuments(rows.front())).Layouts();
  }
  return {ExtractWork(settings_, ReadAll(rows)).Layout()};
}

void CheckExtract(const ExtractOptions& extract, const JobOptions& job) {
  CheckOptions(extract);
  const ExtractSchema schema = ParseExtractSchema(extract.schema, extract.schema_name);
  CheckCategory(schema, extract.category);
  if (!extract.prompt_template.empty()) WriterOptions(extract, /*chat=*/false);
  for (const auto& [option, path] : job.side_outputs) {
    if (option == "--report") CheckReported(job);
  }
}

JobReceipt RunExtract(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const ExtractOptions& extract, const JobOptions& job) {
  const JobOptions documents = WithIdColumn(OfDocuments(job));
  CheckJob(documents);
  CheckExtract(extract, job);
  ExtractOptions options = extract;
  options.flat = options.flat || OutputFormatOf(job) != OutputFormat::kJsonLines;
  ExtractTask task(model, options);
  return JobRunner(model, engine_options, task, documents).Run();
}

JobEstimate EstimateExtract(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                            const ExtractOptions& extract, const JobOptions& job) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  ExtractTask task(model, extract);
  return EstimateJob(model, engine_options, task, documents);
}

std::string ShowExtractPrompt(std::shared_ptr<Model> model, const ExtractOptions& extract,
                              const JobOptions& job) {
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(OfDocuments(job)));
  std::vector<InputRow> rows;
  InputRow row;
  while (rows.size() < static_cast<size_t>(extract.stack) && input.Next(row)) {
    if (row.problem) continue;
    if (!rows.empty() && task.StackName(row) != task.StackName(rows.front())) break;
    rows.push_back(row);
  }
  if (!rows.empty()) return task.ShowPrompt(rows);
  Throw(ErrorKind::kUsage, "--show-prompt: the input has no document");
}

void WriteExtractLayouts(std::shared_ptr<Model> model, const ExtractOptions& extract,
                         const JobOptions& job,
                         const std::function<void(const std::string&)>& write) {
  const JobOptions documents = OfDocuments(job);
  CheckJob(documents);
  ExtractTask task(std::move(model), extract);
  InputReader input(InputOf(documents));
  std::vector<InputRow> stack;
  InputRow row;
  for (std::int64_t read = 0; (job.limit < 0 || read < job.limit) && input.Next(row); ++read) {
    if (row.problem) throw Error(row.problem->kind, row.problem->message);
    const bool full = stack.size() == static_cast<size_t>(extract.stack) ||
                      (!stack.empty() && task.StackName(row) != task.StackName(stack.front()));
    if (full) {
      for (const std::string& line : task.Layouts(stack)) write(line);
      stack.clear();
    }
    stack.push_back(row);
  }
  if (stack.empty()) return;
  for (const std::string& line : task.Layouts(stack)) write(line);
}

}  // namespace banyan
