// Bodies of /v1/chat/completions and /v1/completions: parameters, constraints, prompts.
#include "serve/openai/completion_request.h"

#include <fmt/format.h>
#include <utility>

#include "base/json.h"
#include "program/options.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"

namespace banyan {
namespace {

constexpr std::int64_t kMostPrompts = 1024;
constexpr std::int64_t kMostStops = 16;

// An object with any names: schemas need theirs. Its values may hold lists and objects of plain
// values, no deeper, so that the pattern is finite.
std::string AnyJsonObject() {
  const std::string text = R"re("([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*")re";
  const std::string number = R"(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)";
  const auto list = [](const std::string& item) { return "(" + item + "(, ?" + item + ")*)?"; };
  const auto object = [&](const std::string& value) {
    return R"(\{)" + list(text + ": ?" + value) + R"(\})";
  };
  const std::string plain = "(" + text + "|" + number + "|true|false|null)";
  return object("(" + plain + R"(|\[)" + list(plain) + R"(\]|)" + object(plain) + ")");
}

// What chat and text completions have in common.
void ReadCommon(ServeContext& context, std::string_view body, std::uint64_t scope,
                Parameters& parameters, CompletionRequest& request) {
  request.model = parameters.Needed("model").is_string() ? parameters.Text("model", "") : "";
  request.adapter = context.AdapterOf(request.model);
  request.n = static_cast<int>(parameters.Integer("n", 1, 1, context.options.max_answers));
  request.stream = parameters.Flag("stream", false);
  if (const Json* options = parameters.Find("stream_options")) {
    Parameters inner(*options, "stream_options.");
    request.include_usage = inner.Flag("include_usage", false);
    inner.RefuseOthers();
    if (!request.stream) {
      throw ApiError(400, "'stream_options': only with 'stream'", "stream_options");
    }
  }
  AnswerRequest& answer = request.answer;
  SamplingOptions& sampling = answer.sampling;
  AskOptions ask;
  ReadOptions(parameters, body, context.options,
              OnlyNamed(Bind(ask), {"top_p", "top_k", "min_p", "repetition_penalty"}));
  sampling = ask.sampling;
  // OpenAI's default and range.
  sampling.temperature = static_cast<float>(parameters.Number("temperature", 1.0, 0.0, 2.0));
  const std::int64_t seed = parameters.Integer("seed", -1, INT64_MIN, INT64_MAX);
  sampling.seed = parameters.Find("seed") ? static_cast<std::uint64_t>(seed) : RandomNumber();
  answer.stop_tokens = context.model->end_tokens();
  answer.stop_strings = parameters.Texts("stop", kMostStops);
  answer.stream = request.stream;
  // What a model must keep to.
  if (const Json* format = parameters.Find("response_format")) {
    Parameters inner(*format, "response_format.");
    const std::string type = inner.Text("type", "");
    if (type == "json_object") {
      answer.constraint = context.constraints.OfRegex(scope, AnyJsonObject(), "response_format");
    } else if (type == "json_schema") {
      Parameters schema(inner.Needed("json_schema"), "response_format.json_schema.");
      schema.Text("name", "");
      schema.Text("description", "");
      schema.Flag("strict", true);
      schema.Needed("schema");
      schema.RefuseOthers();
      answer.constraint = context.constraints.OfSchema(
          scope, OrderedText(body, {"response_format", "json_schema", "schema"}),
          "response_format.json_schema.schema");
    } else if (type != "text") {
      inner.Refuse("type", "text, json_object or json_schema");
    }
    inner.RefuseOthers();
  }
  if (const Json* regex = parameters.Find("regex")) {
    if (!regex->is_string()) parameters.Refuse("regex", "a text");
    if (answer.constraint) {
      throw ApiError(400, "'regex' and 'response_format': give one of them", "regex");
    }
    answer.constraint = context.constraints.OfRegex(scope, regex->get<std::string>(), "regex");
  }
  // Ours is the repetition penalty; these two are other formulas.
  parameters.OnlyAs("presence_penalty", 0);
  parameters.OnlyAs("frequency_penalty", 0);
  parameters.OnlyAs("logit_bias", Json::object());
  // About who asks and what is kept of it: nothing here depends on them.
  for (const char* ignored : {"user", "metadata", "safety_identifier", "prompt_cache_key"}) {
    parameters.Find(ignored);
  }
}

void CheckRoom(const ServeContext& context, CompletionRequest& request) {
  const std::int64_t window = context.model->context_length();
  const auto answers = static_cast<std::int64_t>(request.prompts.size()) * request.n;
  if (answers > context.options.max_answers) {
    throw ApiError(400,
                   fmt::format("{} answers are asked for; this server gives at most {} at once",
                               answers, context.options.max_answers),
                   "n");
  }
  for (const std::vector<TokenId>& prompt : request.prompts) {
    if (prompt.empty())
      throw ApiError(400, "the prompt is empty", request.chat ? "messages" : "prompt");
    if (static_cast<std::int64_t>(prompt.size()) >= window) {
      throw ApiError(400,
                     fmt::format("the prompt has {} tokens; the model's context holds {}, the "
                                 "answer included",
                                 prompt.size(), window),
                     request.chat ? "messages" : "prompt", "context_length_exceeded");
    }
  }
}

// A text, or a list of parts of type text.
std::string ContentOf(const Json& content, size_t message) {
  if (content.is_string()) return content.get<std::string>();
  const std::string where = fmt::format("messages[{}].content", message);
  std::string text;
  if (!content.is_array()) throw ApiError(400, "'" + where + "': expected a text", where);
  for (const Json& part : content) {
    Parameters inner(part, where + ".");
    const std::string type = inner.Text("type", "");
    if (type != "text") {
      throw ApiError(
          400, fmt::format("'{}': this server reads parts of type text, not '{}'", where, type),
          where, "unsupported_content");
    }
    text += inner.Text("text", "");
    inner.RefuseOthers();
  }
  return text;
}

std::vector<TokenId> EncodeMessages(const ServeContext& context, const Json& messages,
                                    const std::string& extra) {
  if (!messages.is_array() || messages.empty()) {
    throw ApiError(400, "'messages': expected a list with a message in it", "messages");
  }
  if (!context.text->has_chat_template()) {
    throw ApiError(400, "the model has no chat template; use /v1/completions or /v1/ask",
                   "messages", "no_chat_template");
  }
  Json rendered = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}].", i);
    Parameters message(messages[i], where);
    std::string role = message.Text("role", "");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant") {
      message.Refuse("role", "system, developer, user or assistant");
    }
    const std::string content = ContentOf(message.Needed("content"), i);
    message.RefuseOthers();
    rendered.push_back({{"role", role}, {"content", content}});
  }
  std::vector<ChatText> chat = context.text->RenderChat(DumpJson(rendered), true, extra);
  const std::string_view opening = context.text->answer_opening();
  if (!opening.empty()) chat.push_back({std::string(opening), false});
  return context.text->EncodeChat(chat);
}

std::vector<TokenId> TokensOf(const ServeContext& context, const Json& list) {
  std::vector<TokenId> tokens;
  for (const Json& token : list) {
    const bool good = token.is_number_integer() && token.get<std::int64_t>() >= 0 &&
                      token.get<std::int64_t>() < context.model->vocab_size();
    if (!good) throw ApiError(400, "'prompt': expected token ids of the model", "prompt");
    tokens.push_back(token.get<TokenId>());
  }
  return tokens;
}

}  // namespace

CompletionRequest ReadChatCompletion(ServeContext& context, std::string_view body,
                                     std::uint64_t scope) {
  const Json json = ReadBody(body);
  Parameters parameters(json);
  CompletionRequest request;
  ReadCommon(context, body, scope, parameters, request);
  std::string extra;
  if (const Json* options = parameters.Find("chat_template_kwargs")) {
    if (!options->is_object()) parameters.Refuse("chat_template_kwargs", "an object");
    extra = DumpJson(*options);
  }
  const std::int64_t most = context.options.max_tokens;
  request.max_tokens = parameters.Integer("max_tokens", -1, 1, most);
  request.max_tokens = parameters.Integer("max_completion_tokens", request.max_tokens, 1, most);
  request.logprobs = parameters.Flag("logprobs", false);
  request.answer.top_logprobs = static_cast<int>(parameters.Integer("top_logprobs", 0, 0, 20));
  if (request.answer.top_logprobs > 0 && !request.logprobs) {
    throw ApiError(400, "'top_logprobs': only with 'logprobs'", "top_logprobs");
  }
  const Json& messages = parameters.Needed("messages");
  parameters.OnlyAs("store", false);
  for (const char* name : {"tools", "functions"}) {
    const Json* tools = parameters.Find(name);
    if (tools == nullptr || *tools == Json::array()) continue;
    throw ApiError(
        400,
        fmt::format("'{}': this server calls no tools; an answer in a given shape is had "
                    "with response_format and a json_schema",
                    name),
        name, "unsupported_parameter");
  }
  parameters.OnlyAs("tool_choice", "auto");
  parameters.OnlyAs("parallel_tool_calls", true);
  parameters.OnlyAs("modalities", Json::array({"text"}));
  parameters.OnlyAs("service_tier", "auto");
  parameters.RefuseOthers();
  request.prompts.push_back(EncodeMessages(context, messages, extra));
  CheckRoom(context, request);
  return request;
}

CompletionRequest ReadTextCompletion(ServeContext& context, std::string_view body,
                                     std::uint64_t scope) {
  constexpr std::int64_t kUsualTokens = 16;  // OpenAI's
  const Json json = ReadBody(body);
  Parameters parameters(json);
  CompletionRequest request;
  request.chat = false;
  ReadCommon(context, body, scope, parameters, request);
  request.max_tokens =
      parameters.Integer("max_tokens", kUsualTokens, 1, context.options.max_tokens);
  const std::int64_t logprobs = parameters.Integer("logprobs", -1, 0, 20);
  request.logprobs = logprobs >= 0;
  request.answer.top_logprobs = static_cast<int>(std::max<std::int64_t>(logprobs, 0));
  const Json& prompt = parameters.Needed("prompt");
  parameters.OnlyAs("echo", false);
  parameters.OnlyAs("best_of", request.n);
  parameters.OnlyAs("suffix", "");
  parameters.RefuseOthers();
  const auto encode = [&](const Json& text) {
    return context.text->Encode(text.get_ref<const std::string&>(), /*add_special=*/true,
                                /*parse_special=*/false);
  };
  if (prompt.is_string()) {
    request.prompts.push_back(encode(prompt));
  } else if (prompt.is_array() && !prompt.empty() && prompt.size() <= kMostPrompts &&
             !prompt.front().is_number()) {
    for (const Json& one : prompt) {
      if (!one.is_string() && !one.is_array()) {
        parameters.Refuse("prompt", "a text, token ids, or a list of either");
      }
      request.prompts.push_back(one.is_string() ? encode(one) : TokensOf(context, one));
    }
  } else if (prompt.is_array() && !prompt.empty()) {
    request.prompts.push_back(TokensOf(context, prompt));
  } else {
    parameters.Refuse("prompt", "a text, token ids, or a list of either");
  }
  CheckRoom(context, request);
  return request;
}

}  // namespace banyan
