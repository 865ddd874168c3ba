#include "serve/responses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json_row.h"
#include "serve/api_error.h"

namespace banyan {
namespace {

constexpr double kResponseWait = 1.0;
constexpr double kResponseAlive = 15.0;  // seconds between signs of life in a stream

}  // namespace

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
  Submit(call);  // what it refuses is no event yet
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
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
