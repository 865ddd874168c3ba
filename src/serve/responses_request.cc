// A body of /v1/responses → one of /v1/chat/completions.
#include <fmt/format.h>

#include <utility>

#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/parameters.h"
#include "serve/responses.h"

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
  // Nothing is kept here, so nothing can be gone on with.
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
  return request;
}

}  // namespace banyan
