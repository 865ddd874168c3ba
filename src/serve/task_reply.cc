// A request's rows as they go out: all at once, or as events with pictures of the forest.
#include <algorithm>
#include <utility>

#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/completion.h"
#include "serve/task_run.h"

namespace banyan {
namespace {

constexpr double kPictureSeconds = 0.2;
// With so few, each record is in a picture, also one that is over sooner.
constexpr size_t kFewRecords = 16;
constexpr double kSignOfLifeSeconds = 15.0;

}  // namespace

nlohmann::ordered_json TaskRun::Place(size_t record, size_t question) const {
  OrderedJson place;
  if (request_.kind == TaskRequest::Kind::kRag) {
    place["question"] = record;
  } else {
    place["document"] = record;
    if (request_.kind == TaskRequest::Kind::kAsk) place["question"] = question;
  }
  return place;
}

nlohmann::ordered_json TaskRun::Totals() const {
  Usage usage = usage_;
  usage.cached_tokens = std::max<std::int64_t>(0, usage.prompt_tokens - computed_);
  return {{"usage", ToJson(usage)},
          {"seconds", call_.seconds()},
          {"saved_tokens", usage.cached_tokens},
          {"computed_tokens", computed_}};
}

std::string TaskRun::Whole() {
  Advance();
  while (!AllDone()) {
    for (AnswerEvent& event : call_.Take(1.0)) Take(std::move(event));
    Advance();
  }
  OrderedJson rows = OrderedJson::array();
  for (std::vector<OrderedJson>& of_record : rows_) {
    for (OrderedJson& row : of_record) rows.push_back(std::move(row));
  }
  OrderedJson body = {{"rows", std::move(rows)}};
  body.update(Totals());
  return DumpJson(body);
}

// Only what belongs to this request.
std::string TaskRun::Picture() const {
  static constexpr const char* kLabels[] = {"instruction", "document", "question"};
  OrderedJson nodes = OrderedJson::array();
  for (const ForestNode& node : context_.engine.Picture(call_.requests())) {
    const std::optional<std::uint64_t> record = window_.RecordOf(node.request);
    const bool has_document = request_.kind != TaskRequest::Kind::kRag && node.level > 0 && record;
    OrderedJson json;
    json["id"] = node.id;
    json["parent"] = node.parent == 0 ? OrderedJson() : OrderedJson(node.parent);
    json["tokens"] = node.tokens;
    json["readers"] = node.readers;
    json["state"] = node.growing ? "tail" : node.computed < node.tokens ? "computing" : "kept";
    json["label"] = node.growing ? "answer" : kLabels[std::min(node.level, 2)];
    json["document"] = has_document ? OrderedJson(*record) : OrderedJson();
    nodes.push_back(std::move(json));
  }
  if (nodes.empty()) return {};
  const std::int64_t unique = UniqueTokens();
  OrderedJson event = {{"type", "forest"}, {"nodes", std::move(nodes)}};
  event["prompt_tokens"] = usage_.prompt_tokens;
  event["saved_tokens"] = std::max<std::int64_t>(0, usage_.prompt_tokens - unique);
  event["computed_tokens"] = unique;
  return EventText(DumpJson(event));
}

void TaskRun::Stream(HttpReply& reply) {
  OrderedJson start = {
      {"type", "start"}, {"documents", request_.documents}, {"questions", request_.questions}};
  Advance();  // what it refuses is no event yet
  HttpResponse head;
  head.content_type = "text/event-stream; charset=utf-8";
  head.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  head.body = EventText(DumpJson(start)) + std::exchange(events_, "");
  reply.Begin(head);
  double last_picture = -1.0, last_write = call_.seconds();
  try {
    while (!AllDone()) {
      for (AnswerEvent& event : call_.Take(request_.forest ? kPictureSeconds : 1.0)) {
        Take(std::move(event));
      }
      Advance();
      const bool first_seen = std::exchange(new_record_, false) && counts_.size() <= kFewRecords;
      if (request_.forest && (first_seen || call_.seconds() - last_picture >= kPictureSeconds)) {
        events_ += Picture();
        last_picture = call_.seconds();
      }
      if (events_.empty() && call_.seconds() - last_write > kSignOfLifeSeconds) {
        events_ = ": still here\n\n";
      }
      if (events_.empty()) continue;
      last_write = call_.seconds();
      if (!reply.Write(std::exchange(events_, ""))) return;
    }
    OrderedJson done = {{"type", "done"}};
    done.update(Totals());
    reply.Write(events_ + EventText(DumpJson(done)) + EventText("[DONE]"));
  } catch (const std::exception& error) {
    auto event = OrderedJson::parse(AsApiError(error).ToJson());
    event["type"] = "error";
    reply.Write(events_ + EventText(DumpJson(event)) + EventText("[DONE]"));
  }
  reply.End();
}

}  // namespace banyan
