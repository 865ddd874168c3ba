// /v1/responses: the request as one of a chat completion, and the events of the reply.
#include "serve/openai/responses.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/work_budget.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"

namespace banyan {
namespace {

// A text, or parts of it: what a user wrote, and what was answered before.
Json MessageContent(const Json& content, const std::string& where) {
  if (content.is_string()) return content;
  if (!content.is_array()) throw ApiError(400, "'" + where + "': expected a text", where);
  std::string text;
  for (const Json& part : content) {
    Parameters inner(part, where + ".");
    const std::string type = inner.Text("type", "");
    if (type != "input_text" && type != "output_text") {
      throw ApiError(
          400,
          fmt::format("'{}': this server reads parts of type input_text, not '{}'", where, type),
          where, "unsupported_content");
    }
    text += inner.Text("text", "");
    inner.Find("annotations");
    inner.Find("logprobs");
    inner.RefuseOthers();
  }
  return text;
}

Json MessagesOf(const Json& input, const std::string& instructions) {
  Json messages = Json::array();
  if (!instructions.empty()) {
    messages.push_back({{"role", "system"}, {"content", instructions}});
  }
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return messages;
  }
  if (!input.is_array() || input.empty()) {
    throw ApiError(400, "'input': expected a text, or a list of messages", "input");
  }
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string where = fmt::format("input[{}]", i);
    Parameters item(input[i], where + ".");
    const std::string type = item.Text("type", "message");
    if (type != "message") {
      throw ApiError(400, fmt::format("'{}': this server reads messages, not '{}'", where, type),
                     where, "unsupported_content");
    }
    item.Find("id");
    item.Find("status");
    messages.push_back({{"role", item.Text("role", "")},
                        {"content", MessageContent(item.Needed("content"), where + ".content")}});
    item.RefuseOthers();
  }
  return messages;
}

// "text": {"format": …} as a chat's "response_format"; empty: none.
std::string FormatOf(std::string_view body, Parameters& parameters) {
  const Json* text = parameters.Find("text");
  if (text == nullptr) return {};
  Parameters inner(*text, "text.");
  const Json* format = inner.Find("format");
  inner.OnlyAs("verbosity", "medium");
  inner.RefuseOthers();
  if (format == nullptr) return {};
  Parameters fields(*format, "text.format.");
  const std::string type = fields.Text("type", "");
  if (type != "json_schema") {
    if (type != "text" && type != "json_object") {
      fields.Refuse("type", "text, json_object or json_schema");
    }
    fields.RefuseOthers();
    return DumpJson(Json{{"type", type}});
  }
  fields.Text("name", "");
  fields.Text("description", "");
  fields.Flag("strict", true);
  fields.Needed("schema");
  fields.RefuseOthers();
  return R"({"type":"json_schema","json_schema":{"schema":)" +
         OrderedText(body, {"text", "format", "schema"}) + "}}";
}

// What a chat calls it, in this endpoint's words.
std::string InOwnWords(std::string text) {
  for (const auto& [theirs, ours] :
       {std::pair<std::string_view, std::string_view>("max_completion_tokens", "max_output_tokens"),
        {"response_format.json_schema.schema", "text.format.schema"},
        {"response_format", "text.format"},
        {"messages", "input"}}) {
    for (size_t at = text.find(theirs); at != std::string::npos;
         at = text.find(theirs, at + ours.size())) {
      text.replace(at, theirs.size(), ours);
    }
  }
  return text;
}

constexpr double kResponseWait = 1.0;
constexpr double kResponseAlive = 15.0;  // seconds between comments that keep an idle stream open

}  // namespace

ResponseRequest ReadResponse(ServeContext& context, std::string_view body, std::uint64_t scope) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  const std::string instructions = parameters.Text("instructions", "");
  const Json messages = MessagesOf(parameters.Needed("input"), instructions);
  const std::string format = FormatOf(body, parameters);
  Json chat = {{"model", parameters.Needed("model")}, {"messages", messages}};
  for (const auto& [ours, theirs] : {std::pair("temperature", "temperature"),
                                     {"top_p", "top_p"},
                                     {"max_output_tokens", "max_completion_tokens"},
                                     {"stream", "stream"},
                                     {"seed", "seed"}}) {
    if (const Json* value = parameters.Find(ours)) chat[theirs] = *value;
  }
  ResponseRequest request;
  // Accepted, without effect: this server stores no responses and calls no tools.
  for (const char* ignored : {"store", "user", "metadata", "safety_identifier", "prompt_cache_key",
                              "parallel_tool_calls", "tool_choice"}) {
    parameters.Find(ignored);
  }
  parameters.OnlyAs("tools", Json::array());
  parameters.OnlyAs("include", Json::array());
  parameters.OnlyAs("truncation", "disabled");
  parameters.OnlyAs("background", false);
  parameters.OnlyAs("top_logprobs", 0);
  parameters.OnlyAs("service_tier", "auto");
  parameters.RefuseOthers();
  std::string text = DumpJson(chat);
  if (!format.empty()) {
    text.pop_back();
    text += ",\"response_format\":" + format + "}";
  }
  try {
    request.completion = ReadChatCompletion(context, text, scope);
  } catch (const ApiError& error) {
    throw ApiError(error.status(), InOwnWords(error.what()), InOwnWords(error.param()),
                   error.code());
  }
  const SamplingOptions& sampling = request.completion.answer.sampling;
  const auto given = [&](const char* name) {
    const Json* value = parameters.Find(name);
    return value == nullptr ? nlohmann::ordered_json()
                            : nlohmann::ordered_json::parse(DumpJson(*value));
  };
  request.echo = {
      {"instructions", given("instructions")}, {"max_output_tokens", given("max_output_tokens")},
      {"temperature", sampling.temperature},   {"top_p", sampling.top_p},
      {"metadata", given("metadata")},         {"user", given("user")}};
  nlohmann::ordered_json shown = given("text");
  if (!shown.is_object()) shown = nlohmann::ordered_json::object();
  if (!shown.contains("format")) shown["format"] = {{"type", "text"}};
  request.echo["text"] = std::move(shown);
  constexpr size_t kCopies = 8;  // in the events of a stream, as values and as text
  ChargeBudget(kCopies * DumpJson(request.echo).size());
  return request;
}

Response::Response(ServeContext& context, ResponseRequest request)
    : context_(context),
      request_(std::move(request)),
      id_(NewId("resp_")),
      message_id_(NewId("msg_")),
      created_(SecondsNow()) {}

void Response::Submit(EngineCall& call) {
  CompletionRequest& wanted = request_.completion;
  PromptSegment root;
  root.adapter = wanted.adapter;
  PromptSegment& prompt = root.below.emplace_back();
  prompt.tokens = std::move(wanted.prompts.front());
  const std::int64_t room =
      context_.model->context_length() - static_cast<std::int64_t>(prompt.tokens.size());
  const std::int64_t most = wanted.max_tokens > 0 ? wanted.max_tokens : context_.options.max_tokens;
  AnswerRequest answer = wanted.answer;
  answer.stream = true;
  answer.max_new = static_cast<int>(std::min(room, most));
  prompt.answers.push_back(std::move(answer));
  call.Submit(root);
}

void Response::Take(Answer answer) {
  if (answer.finish == FinishReason::kError) throw ApiError(500, answer.error);
  if (answer.finish == FinishReason::kCancelled) throw ApiError(503, "the answer was cancelled");
  answer_ = std::move(answer);
  text_ = answer_.text;
  ended_ = true;
}

std::string Response::EndStatus() const {
  return answer_.finish == FinishReason::kLength ? "incomplete" : "completed";
}

nlohmann::ordered_json Response::TextPart() const {
  return {{"type", "output_text"}, {"text", text_}, {"annotations", OrderedJson::array()}};
}

nlohmann::ordered_json Response::Message(const char* status) const {
  OrderedJson content = OrderedJson::array();
  if (ended_) content.push_back(TextPart());
  return {{"id", message_id_},
          {"type", "message"},
          {"status", status},
          {"role", "assistant"},
          {"content", std::move(content)}};
}

nlohmann::ordered_json Response::Body(const char* status) const {
  OrderedJson body = {{"id", id_},
                      {"object", "response"},
                      {"created_at", created_},
                      {"status", status},
                      {"error", nullptr},
                      {"incomplete_details", nullptr},
                      {"model", request_.completion.model},
                      {"output", OrderedJson::array()},
                      {"parallel_tool_calls", true},
                      {"previous_response_id", nullptr},
                      {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                      {"store", false},
                      {"tool_choice", "auto"},
                      {"tools", OrderedJson::array()},
                      {"truncation", "disabled"},
                      {"usage", nullptr}};
  body.update(request_.echo);
  if (!ended_) return body;
  if (EndStatus() == "incomplete") {
    body["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  body["output"].push_back(Message(status));
  const auto written = static_cast<std::int64_t>(answer_.tokens.size());
  body["usage"] = {{"input_tokens", answer_.prompt_tokens},
                   {"input_tokens_details", {{"cached_tokens", answer_.cached_tokens}}},
                   {"output_tokens", written},
                   {"output_tokens_details", {{"reasoning_tokens", 0}}},
                   {"total_tokens", answer_.prompt_tokens + written}};
  return body;
}

std::string Response::Whole(EngineCall& call) {
  Submit(call);
  while (call.open() > 0) {
    for (AnswerEvent& event : call.Take(kResponseWait)) {
      if (event.ended) Take(std::move(event.answer));
    }
  }
  return DumpJson(Body(EndStatus().c_str()));
}

void Response::Stream(EngineCall& call, HttpReply& reply) {
  std::int64_t sequence = 0;
  const auto event = [&](const char* type, OrderedJson fields) {
    OrderedJson json = {{"type", type}, {"sequence_number", sequence++}};
    json.update(fields);
    return fmt::format("event: {}\ndata: {}\n\n", type, DumpJson(json));
  };
  // Of the only part of the only item.
  const auto part_event = [&](const char* type, OrderedJson fields) {
    OrderedJson place = {{"item_id", message_id_}, {"output_index", 0}, {"content_index", 0}};
    place.update(fields);
    return event(type, std::move(place));
  };
  Submit(call);  // what it throws becomes a plain error reply
  HttpResponse head = EventStreamHead();
  head.body = event("response.created", {{"response", Body("in_progress")}});
  head.body += event("response.in_progress", {{"response", Body("in_progress")}});
  head.body +=
      event("response.output_item.added", {{"output_index", 0}, {"item", Message("in_progress")}});
  head.body += part_event("response.content_part.added", {{"part", TextPart()}});
  reply.Begin(head);
  double last = call.seconds();
  try {
    while (call.open() > 0) {
      std::string text;
      for (AnswerEvent& taken : call.Take(kResponseWait)) {
        if (!taken.text.empty()) {
          text += part_event("response.output_text.delta",
                             {{"delta", taken.text}, {"logprobs", OrderedJson::array()}});
        }
        if (taken.ended) Take(std::move(taken.answer));
      }
      if (text.empty() && call.seconds() - last > kResponseAlive) text = ": still here\n\n";
      if (text.empty()) continue;
      last = call.seconds();
      if (!reply.Write(text)) return;
    }
    const std::string status = EndStatus();
    std::string text = part_event("response.output_text.done",
                                  {{"text", text_}, {"logprobs", OrderedJson::array()}});
    text += part_event("response.content_part.done", {{"part", TextPart()}});
    text += event("response.output_item.done",
                  {{"output_index", 0}, {"item", Message(status.c_str())}});
    text += event(status == "completed" ? "response.completed" : "response.incomplete",
                  {{"response", Body(status.c_str())}});
    reply.Write(text);
  } catch (const std::exception& error) {
    const OrderedJson told = OrderedJson::parse(AsApiError(error).ToJson());
    const OrderedJson& inner = told.contains("error") ? told.at("error") : told;
    reply.Write(event("error", {{"code", inner.value("code", OrderedJson())},
                                {"message", inner.value("message", OrderedJson())},
                                {"param", inner.value("param", OrderedJson())}}));
  }
  reply.End();
}

}  // namespace banyan
