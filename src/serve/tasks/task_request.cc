// Bodies of /v1/ask, /v1/extract and /v1/rag.
#include "serve/tasks/task_request.h"

#include <fmt/format.h>
#include <algorithm>
#include <set>
#include <utility>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "program/options.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"
#include "tasks/ask/ask_task.h"
#include "tasks/extract/extract_task.h"
#include "tasks/rag/rag_task.h"

namespace banyan {
namespace {

size_t Characters(const Json& text) {
  return static_cast<size_t>(CountCharacters(text.get_ref<const std::string&>()));
}

const Json& ListOf(Parameters& parameters, const char* name, int most) {
  const Json& list = parameters.Needed(name);
  const std::string expected = fmt::format("a list of 1 to {}", most);
  if (!list.is_array()) parameters.Refuse(name, expected);
  if (list.empty() || list.size() > static_cast<size_t>(most)) {
    throw ApiError(400,
                   fmt::format("'{}': expected {}, found {}", name, expected,
                               list.empty() ? "none" : fmt::format("{}", list.size())),
                   name);
  }
  return list;
}

// A record as a line of a file would have been: numbered when it has no id.
InputRow RowOf(const char* file, size_t index, Json value) {
  InputRow row;
  row.file = file;
  row.line = static_cast<std::int64_t>(index) + 1;
  row.index = static_cast<std::int64_t>(index);
  if (!value.is_object()) {
    row.problem = {ErrorKind::kInput, fmt::format("expected an object, found {}", TypeName(value))};
    value = Json::object();
  }
  if (!value.contains("id") || value.at("id").is_null()) value["id"] = row.line;
  row.value = std::move(value);
  return row;
}

// Of the texts of a thing's documents.
size_t CharactersOfDocuments(const Json& thing) {
  size_t characters = 0;
  const auto documents = thing.find("documents");
  if (documents == thing.end() || !documents->is_array()) return 0;
  for (const Json& document : *documents) {
    const Json text = document.is_object() ? document.value("text", Json()) : document;
    if (text.is_string()) characters += Characters(text);
  }
  return characters;
}

// {"id"?,"text",…} → the record's text under the name that the task knows; "context" is its other
// name.
void AddDocuments(const Json& list, const char* text_name, TaskRequest& request) {
  for (size_t i = 0; i < list.size(); ++i) {
    Json value = list[i];
    size_t characters = 0;
    if (value.is_string()) value = Json{{"text", value}};
    if (value.is_object() && !value.contains("documents") && !value.contains("text") &&
        value.contains("context")) {
      value["text"] = value.at("context");
      value.erase("context");
    }
    if (value.is_object() && value.contains("text")) {
      if (value.at("text").is_string()) {
        characters = Characters(value.at("text"));
      }
      if (std::string_view(text_name) != "text") {
        Json text = std::move(value["text"]);
        value.erase("text");
        value[text_name] = std::move(text);
      }
    }
    if (value.is_object()) characters += CharactersOfDocuments(value);
    InputRow row = RowOf("documents", i, std::move(value));
    request.documents.push_back({{"id", row.value.at("id")}, {"characters", characters}});
    request.records.push_back(std::move(row));
  }
}

// As a job does it: of several with one id the first is asked.
void RefuseRepeated(TaskRequest& request) {
  std::set<std::string> identities;
  for (InputRow& row : request.records) {
    if (row.problem) continue;
    try {
      if (!identities.insert(request.task->Identity(row)).second) {
        row.problem = {ErrorKind::kInput, "an earlier row has the same id"};
      }
    } catch (const std::exception& error) {
      row.problem = ProblemOf(error);
    }
  }
}

const char* NameOfTask(TaskRequest::Kind kind) {
  switch (kind) {
    case TaskRequest::Kind::kAsk:
      return "ask";
    case TaskRequest::Kind::kExtract:
      return "extract";
    case TaskRequest::Kind::kRag:
      break;
  }
  return "rag";
}

// "model" says which adapter answers: by its name, or as the model itself that of the task.
void ReadStreaming(const ServeContext& context, Parameters& parameters, TaskRequest& request) {
  const std::string& served = context.options.model_name;
  request.adapter = context.AdapterOf(parameters.Text("model", served));
  const auto own = context.options.task_adapters.find(NameOfTask(request.kind));
  if (request.adapter.empty() && own != context.options.task_adapters.end()) {
    request.adapter = own->second;
  }
  request.stream = parameters.Flag("stream", false);
  request.forest = parameters.Flag("forest", false);
}

// Answers to a list of questions: one each, or one for each of its choices.
std::int64_t CountAsked(const Json& questions) {
  if (!questions.is_array()) return 1;
  std::int64_t count = 0;
  for (const Json& question : questions) {
    const bool chooses =
        question.is_object() && question.contains("choices") && question.at("choices").is_array();
    count += chooses ? std::max<std::int64_t>(
                           1, static_cast<std::int64_t>(question.at("choices").size()))
                     : 1;
  }
  return count;
}

// REQUIRES: `answers` comes from counting values of a body, `times` from its parameters.
void CheckCount(const ServeContext& context, std::int64_t answers, std::int64_t times = 1) {
  const std::int64_t most = context.options.max_answers;
  if (answers <= most / times) return;
  throw ApiError(400,
                 fmt::format("{} answers are asked for (every choice, sample and document of a "
                             "question counts); this server gives at most {} at once",
                             answers * times, most));
}

// The options of a task are named as on the command line in its messages.
template <typename Make>
std::unique_ptr<Task> MakeTask(const Make& make) {
  try {
    return make();
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

}  // namespace

TaskRequest ReadAskRequest(ServeContext& context, std::string_view body) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  TaskRequest request;
  AskOptions ask;
  ReadOptions(parameters, body, context.options, Bind(ask));
  ReadStreaming(context, parameters, request);
  const Json& documents = ListOf(parameters, "documents", context.options.max_answers);
  const Json& questions = ListOf(parameters, "questions", context.options.max_answers);
  parameters.RefuseOthers();
  request.questions = static_cast<std::int64_t>(questions.size());
  auto answers = static_cast<std::int64_t>(documents.size()) * CountAsked(questions);
  for (const Json& document : documents) {  // those that have more of their own
    if (!document.is_object() || !document.contains("questions")) continue;
    answers += CountAsked(document.at("questions"));
  }
  CheckCount(context, answers, ask.samples);
  // Questions of all documents, numbered as those of a file.
  for (const Json& question : questions) {
    if (!question.is_string() && !question.is_object()) {
      parameters.Refuse("questions", "a list of texts or of objects with a question");
    }
    ask.questions += DumpJson(question) + "\n";
  }
  ask.questions_name = "questions";
  request.task =
      MakeTask([&] { return std::make_unique<AskTask>(context.model, ask, request.adapter); });
  AddDocuments(documents, "context", request);
  RefuseRepeated(request);
  return request;
}

TaskRequest ReadExtractRequest(ServeContext& context, std::string_view body) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  TaskRequest request;
  request.kind = TaskRequest::Kind::kExtract;
  ExtractOptions extract;
  parameters.Needed("schema");
  extract.schema_name = "schema";
  ReadOptions(parameters, body, context.options, Bind(extract));
  ReadStreaming(context, parameters, request);
  const Json& documents = ListOf(parameters, "documents", context.options.max_answers);
  parameters.RefuseOthers();
  request.task = MakeTask(
      [&] { return std::make_unique<ExtractTask>(context.model, extract, request.adapter); });
  AddDocuments(documents, "text", request);
  RefuseRepeated(request);
  return request;
}

TaskRequest ReadRagRequest(ServeContext& context, std::string_view body) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  TaskRequest request;
  request.kind = TaskRequest::Kind::kRag;
  RagOptions rag;
  rag.index = context.options.index;
  ReadOptions(parameters, body, context.options, Bind(rag));
  ReadStreaming(context, parameters, request);
  const Json& questions = ListOf(parameters, "questions", context.options.max_answers);
  Json documents;
  if (parameters.Find("documents")) {
    documents = ListOf(parameters, "documents", context.options.max_answers);
  } else if (!rag.index) {
    throw ApiError(400, "'documents' is missing, and the server has no index (--index)",
                   "documents", "missing_required_parameter");
  }
  parameters.RefuseOthers();
  request.questions = static_cast<std::int64_t>(questions.size());
  CheckCount(context, request.questions *
                          std::max<std::int64_t>(1, static_cast<std::int64_t>(documents.size())));
  for (size_t i = 0; i < documents.size(); ++i) {
    Json& document = documents[i];
    if (document.is_string()) document = Json{{"text", document}};
    size_t characters = 0;
    Json id = static_cast<std::int64_t>(i) + 1;
    if (document.is_object()) {
      if (!document.contains("id") || document.at("id").is_null()) document["id"] = id;
      id = document.at("id");
      if (document.contains("text") && document.at("text").is_string()) {
        characters = Characters(document.at("text"));
      }
    }
    request.documents.push_back({{"id", id}, {"characters", characters}});
    request.shared_bytes += characters;
  }
  request.task = MakeTask([&] { return std::make_unique<RagTask>(context.model, rag); });
  for (size_t i = 0; i < questions.size(); ++i) {
    Json value = questions[i].is_string() ? Json{{"question", questions[i]}} : questions[i];
    request.records.push_back(RowOf("questions", i, std::move(value)));
  }
  request.shared = std::move(documents);
  RefuseRepeated(request);
  return request;
}

}  // namespace banyan
