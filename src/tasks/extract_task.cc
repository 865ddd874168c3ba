#include "tasks/extract_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "base/sha256.h"
#include "tasks/extract_work.h"
#include "text/utf8.h"

namespace banyan {
namespace {

constexpr const char* kChatTemplate = "{details}{document}";
constexpr const char* kPlainTemplate = "{instruction}\n\n{details}{document}\n\nAnswer:\n";

Json TextParameter(const std::string& text) {
  constexpr size_t kShownBytes = 2000;
  if (text.size() <= kShownBytes) return text;
  return fmt::format("{} bytes, sha256 {}", text.size(), ToHex(Sha256().Add(text).Finish()));
}

const char* ModeName(ValueMode mode) {
  switch (mode) {
    case ValueMode::kSkeleton:
      return "skeleton";
    case ValueMode::kIsolated:
      return "isolated";
    case ValueMode::kSequential:
      return "sequential";
  }
  return "?";
}

void CheckOptions(const ExtractOptions& options) {
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>("--instruction", options.instruction),
        {"--template", options.prompt_template},
        {"--few-shot", options.few_shot},
        {"--category", options.category}}) {
    if (!IsValidUtf8(text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", name);
  }
  if (options.max_tokens < 0 || options.max_tokens > 4096) {
    Throw(ErrorKind::kUsage, "--max-tokens: expected 1 to 4096, found {}", options.max_tokens);
  }
  if (options.too_long == TooLong::kSplit) {
    Throw(ErrorKind::kUsage, "--too-long: expected fail or truncate");
  }
}

// What the prompt writer of `ask` needs to know. There is no question: the template of values
// follows the document.
AskOptions WriterOptions(const ExtractOptions& options, bool chat) {
  AskOptions ask;
  ask.instruction = options.instruction;
  ask.chat = options.chat;
  ask.prompt_template = options.prompt_template;
  if (ask.prompt_template.empty()) ask.prompt_template = chat ? kChatTemplate : kPlainTemplate;
  const std::vector<TemplatePiece> pieces = ParsePromptTemplate(ask.prompt_template);
  const auto names = [&](std::string_view name) {
    return std::ranges::any_of(pieces, [&](const TemplatePiece& piece) {
      return piece.is_variable && piece.text == name;
    });
  };
  if (!names("document") && !names("text")) {
    Throw(ErrorKind::kUsage, "template: expected the variable {{document}} in it");
  }
  if (!names("question")) ask.prompt_template += "{question}";
  return ask;
}

// Without one of its own: where it stands.
Json IdOf(const InputRow& row) {
  const auto it = row.value.find("id");
  if (it == row.value.end() || it->is_null()) {
    return fmt::format("{}:{}", std::filesystem::path(row.file).filename().string(), row.line);
  }
  if (!it->is_string() && !IsNumber(*it)) {
    Throw(ErrorKind::kInput, "'id': expected a text or a number, found {}", TypeName(*it));
  }
  if (it->is_string() && it->get_ref<const std::string&>().empty()) {
    Throw(ErrorKind::kInput, "'id' is empty");
  }
  return *it;
}

}  // namespace

ExtractTask::ExtractTask(std::shared_ptr<Model> model, const ExtractOptions& options) {
  CheckOptions(options);
  settings_.options = options;
  settings_.text = model->text();
  if (settings_.text == nullptr) {
    Throw(ErrorKind::kUnsupported, "extract: the model's files have no tokenizer");
  }
  settings_.schema = ParseExtractSchema(options.schema, options.schema_name);
  PlanRequest request{settings_.text, MakeTokenTrie(*settings_.text), model->end_tokens(),
                      &settings_.options};
  for (const ExtractCategory& category : settings_.schema.categories) {
    settings_.plans.emplace(category.name, PlanCategory(category, request));
  }
  if (!options.category.empty() && settings_.schema.Find(options.category) == nullptr) {
    Throw(ErrorKind::kUsage, "--category: the schema has no category '{}'", options.category);
  }
  settings_.model = std::move(model);
  const bool chat = options.chat == ChatUse::kOn ||
                    (options.chat == ChatUse::kAuto && settings_.text->has_chat_template());
  settings_.writer = std::make_unique<PromptWriter>(settings_.text, WriterOptions(options, chat));
  settings_.encoders =
      std::make_unique<EncoderPool>(settings_.text, /*add_bos=*/!settings_.writer->uses_chat());
}

Json ExtractTask::Parameters() const {
  const ExtractOptions& options = settings_.options;
  return {
      {"--schema", TextParameter(options.schema)},
      {"--category", options.category},
      {"--instruction", TextParameter(options.instruction)},
      {"--template", TextParameter(options.prompt_template)},
      {"--few-shot", TextParameter(options.few_shot)},
      {"--chat", settings_.writer->uses_chat() ? "on" : "off"},
      {"--values", ModeName(options.values)},
      {"--gap", options.gaps},
      {"--max-tokens", options.max_tokens},
      {"--too-long", options.too_long == TooLong::kFail ? "fail" : "truncate"},
  };
}

std::string ExtractTask::Identity(const InputRow& row) const { return DumpJson(IdOf(row)); }

ExtractRecord ExtractTask::Read(const InputRow& row) const {
  ExtractRecord record;
  record.id = IdOf(row);
  auto text = row.value.find("text");
  if (text == row.value.end()) text = row.value.find("context");  // a document that is a file
  if (text == row.value.end() || text->is_null()) {
    Throw(ErrorKind::kInput, "expected the field 'text', found none");
  }
  if (!text->is_string()) {
    Throw(ErrorKind::kInput, "'text': expected text, found {}", TypeName(*text));
  }
  record.text = text->get<std::string>();
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
  for (const auto& [name, value] : row.value.items()) {
    if (name != "id" && name != "text" && name != "context" && name != "category")
      record.carried[name] = value;
  }
  return record;
}

std::unique_ptr<RecordWork> ExtractTask::Start(const InputRow& row) {
  return std::make_unique<ExtractWork>(settings_, Read(row));
}

// Every attribute of any category, after what tells the rows apart.
TableColumns ExtractTask::Columns() const {
  TableColumns columns{{"id", "category"}, {"id"}};
  for (const ExtractCategory& category : settings_.schema.categories) {
    for (const ExtractAttribute& attribute : category.attributes) {
      const std::string name = FlatName(attribute.name);
      if (std::ranges::find(columns.all, name) == columns.all.end()) columns.all.push_back(name);
    }
  }
  columns.shown.insert(columns.shown.end(), columns.all.begin() + 2, columns.all.end());
  columns.all.insert(columns.all.end(), {"confidence", "truncated", "tokens", "prompt_tokens"});
  return columns;
}

OutputRow ExtractTask::ErrorRow(const InputRow& row, const RowProblem& problem) const {
  OutputRow error;
  const auto id = row.value.find("id");
  const bool usable = id != row.value.end() && (id->is_string() || IsNumber(*id));
  error.fields["id"] = usable ? *id : Json();
  error.fields["error"] = {{"kind", ErrorKindName(problem.kind)},
                           {"message", problem.message},
                           {"file", row.file},
                           {"line", row.line}};
  error.error = true;
  error.identity = DumpJson(error.fields);
  return error;
}

std::string ExtractTask::ShowPrompt(const InputRow& row) {
  return ExtractWork(settings_, Read(row)).Show();
}

}  // namespace banyan
