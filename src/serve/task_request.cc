#include "serve/task_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "base/work_budget.h"
#include "serve/api_error.h"
#include "serve/parameters.h"
#include "tasks/ask_task.h"
#include "tasks/extract_task.h"
#include "tasks/rag_task.h"

namespace banyan {
namespace {

constexpr size_t kMostStopTexts = 16;
constexpr std::int64_t kMostTopLogprobs = 20;

size_t Characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

template <typename Value>
Value OneOf(Parameters& parameters, const char* name, Value otherwise,
            std::initializer_list<std::pair<const char*, Value>> values) {
  const Json* found = parameters.Find(name);
  if (found == nullptr) return otherwise;
  std::string known;
  for (const auto& [word, value] : values) {
    if (found->is_string() && found->get_ref<const std::string&>() == word) return value;
    known += (known.empty() ? "" : ", ") + std::string(word);
  }
  parameters.Refuse(name, "one of " + known);
}

const Json& ListOf(Parameters& parameters, const char* name, int most) {
  const Json& list = parameters.Needed(name);
  if (!list.is_array() || list.empty() || list.size() > static_cast<size_t>(most)) {
    parameters.Refuse(name, fmt::format("a list of 1 to {}", most));
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
    if (text.is_string()) characters += Characters(text.get_ref<const std::string&>());
  }
  return characters;
}

// {"id"?,"text",…} → the record's text under the name that the task knows.
void AddDocuments(const Json& list, const char* text_name, TaskRequest& request) {
  for (size_t i = 0; i < list.size(); ++i) {
    Json value = list[i];
    size_t characters = 0;
    if (value.is_string()) value = Json{{"text", value}};
    if (value.is_object() && value.contains("text")) {
      if (value.at("text").is_string()) {
        characters = Characters(value.at("text").get_ref<const std::string&>());
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
  } catch (const WorkStopped&) {
    throw;
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
}

ChatUse ReadChat(Parameters& parameters) {
  return OneOf(parameters, "chat", ChatUse::kAuto,
               {{"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}});
}

}  // namespace

TaskRequest ReadAskRequest(ServeContext& context, std::string_view body) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  TaskRequest request;
  AskOptions ask;
  ask.instruction = parameters.Text("instruction", kDefaultInstruction);
  ask.prompt_template = parameters.Text("template", "");
  ask.few_shot = parameters.Text("few_shot", "");
  ask.chat = ReadChat(parameters);
  ask.thinking = parameters.Flag("thinking", false);
  ask.max_new = static_cast<int>(
      parameters.Integer("max_tokens", ask.max_new, 1, context.options.max_tokens));
  ask.stop = parameters.Texts("stop", kMostStopTexts);
  ask.regex = parameters.Text("regex", "");
  if (parameters.Find("copy")) ask.copy = parameters.Flag("copy", false);
  ask.min_confidence = parameters.Number("min_confidence", 0.0, 0.0, 1.0);
  if (parameters.Find("json_schema")) ask.json_schema = OrderedText(body, {"json_schema"});
  SamplingOptions& sampling = ask.sampling;
  sampling.temperature = static_cast<float>(parameters.Number("temperature", 0.0, 0.0, 100.0));
  sampling.top_p = static_cast<float>(parameters.Number("top_p", 1.0, 0.0, 1.0));
  sampling.top_k = static_cast<int>(parameters.Integer("top_k", 0, 0, 1 << 20));
  sampling.min_p = static_cast<float>(parameters.Number("min_p", 0.0, 0.0, 1.0));
  sampling.repetition_penalty =
      static_cast<float>(parameters.Number("repetition_penalty", 1.0, 0.01, 100.0));
  sampling.seed = static_cast<std::uint64_t>(parameters.Integer("seed", 0, 0, INT64_MAX));
  ask.samples = static_cast<int>(parameters.Integer("samples", 1, 1, context.options.max_answers));
  ask.vote = parameters.Flag("vote", false);
  ask.choices = OneOf(parameters, "choices", ChoiceMode::kScore,
                      {{"score", ChoiceMode::kScore}, {"letter", ChoiceMode::kLetter}});
  ask.choice_score = OneOf(
      parameters, "choice_score", ChoiceScore::kSum,
      {{"mean", ChoiceScore::kMean}, {"sum", ChoiceScore::kSum}, {"prior", ChoiceScore::kPrior}});
  ask.too_long = OneOf(
      parameters, "too_long", TooLong::kFail,
      {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}, {"split", TooLong::kSplit}});
  ask.part_tokens = static_cast<int>(parameters.Integer("part_tokens", 0, 0, 1 << 30));
  ask.reduce = parameters.Flag("reduce", false);
  ask.logprobs = parameters.Flag("logprobs", false);
  ask.top_logprobs = static_cast<int>(parameters.Integer("top_logprobs", 0, 0, kMostTopLogprobs));
  ask.token_ids = parameters.Flag("token_ids", false);
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
  request.task = MakeTask([&] {
    return std::make_unique<AskTask>(
        context.model, ask,
        AskSurroundings{request.adapter, [&context] { return context.constraints.Trie(); }});
  });
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
  extract.schema = OrderedText(body, {"schema"});
  extract.schema_name = "schema";
  extract.category = parameters.Text("category", "");
  extract.instruction = parameters.Text("instruction", kDefaultExtractInstruction);
  extract.prompt_template = parameters.Text("template", "");
  extract.few_shot = parameters.Text("few_shot", "");
  extract.chat = ReadChat(parameters);
  extract.values = OneOf(parameters, "values", ValueMode::kSkeleton,
                         {{"skeleton", ValueMode::kSkeleton},
                          {"isolated", ValueMode::kIsolated},
                          {"sequential", ValueMode::kSequential}});
  extract.fuse = OneOf(parameters, "fuse", extract.fuse,
                       {{"values", FuseMode::kValues}, {"tokens", FuseMode::kTokens}});
  extract.max_tokens = static_cast<int>(
      parameters.Integer("max_tokens", 0, 0, std::min(context.options.max_tokens, 4096)));
  extract.too_long = OneOf(
      parameters, "too_long", TooLong::kSplit,
      {{"split", TooLong::kSplit}, {"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}});
  extract.copy = parameters.Flag("copy", true);
  extract.min_confidence = parameters.Number("min_confidence", 0.0, 0.0, 1.0);
  extract.flat = parameters.Flag("flat", false);
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
  PanelOptions& panel = rag.panel;
  rag.method = OneOf(parameters, "method", RagMethod::kExperts,
                     {{"experts", RagMethod::kExperts},
                      {"concat", RagMethod::kConcat},
                      {"top1", RagMethod::kTop1},
                      {"map-reduce", RagMethod::kMapReduce}});
  panel.rule = OneOf(parameters, "rule", FusionRule::kMax,
                     {{"max", FusionRule::kMax},
                      {"mixture", FusionRule::kMixture},
                      {"product", FusionRule::kProduct}});
  if (parameters.Find("gamma")) rag.gamma = parameters.Number("gamma", 0.0, 0.0, 1e6);
  panel.scores = OneOf(parameters, "scores", panel.scores,
                       {{"normalised", PanelScores::kNormalised}, {"raw", PanelScores::kRaw}});
  panel.plausibility = parameters.Number("plausibility", panel.plausibility, 0.0, 1.0);
  panel.abstention = parameters.Number("abstention", panel.abstention, 0.0, 1.0);
  if (const Json* beta = parameters.Find("beta"); beta && IsNumber(*beta)) {
    panel.beta_rule = BetaRule::kFixed;
    panel.beta = parameters.Number("beta", 0.0, 0.0, 1e6);
  } else {
    panel.beta_rule = OneOf(parameters, "beta", BetaRule::kExpert,
                            {{"expert", BetaRule::kExpert}, {"shared", BetaRule::kShared}});
  }
  rag.relevance = OneOf(parameters, "relevance", RelevanceFrom::kAuto,
                        {{"auto", RelevanceFrom::kAuto},
                         {"given", RelevanceFrom::kGiven},
                         {"bm25", RelevanceFrom::kBm25},
                         {"equal", RelevanceFrom::kEqual}});
  rag.copy = parameters.Flag("copy", false);
  rag.verify = parameters.Flag("verify", false);
  rag.min_relevance = parameters.Number("min_relevance", 0.0, 0.0, 1.0);
  rag.top = static_cast<int>(parameters.Integer("top", rag.top, 1, context.options.max_answers));
  rag.index = context.options.index;
  rag.instruction = parameters.Text("instruction", kDefaultInstruction);
  rag.map_instruction = parameters.Text("map_instruction", rag.map_instruction);
  rag.chat = ReadChat(parameters);
  rag.max_new = static_cast<int>(
      parameters.Integer("max_tokens", rag.max_new, 1, context.options.max_tokens));
  rag.stop = parameters.Texts("stop", kMostStopTexts);
  rag.too_long = OneOf(parameters, "too_long", TooLong::kFail,
                       {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}});
  rag.trace = parameters.Flag("trace", true);
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
        characters = Characters(document.at("text").get_ref<const std::string&>());
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
