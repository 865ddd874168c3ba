// Runs a task request: limits, the records on their way, the reply or its events.
#include "serve/tasks/task_run.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "serve/request/api_error.h"
#include "tasks/job/job_progress.h"

namespace banyan {
namespace {

constexpr size_t kRecordsAhead = 64;
constexpr size_t kBytesAhead = 64u << 20;  // of records of rag under way
// For each byte of its documents a record has about so many: copies, tokens, and the automaton that
// answers are copied by.
constexpr size_t kBytesOfText = 32;

std::int64_t CountRows(const PromptSegment& segment) {
  auto count = static_cast<std::int64_t>(segment.answers.size() + segment.experts.size());
  for (const PromptSegment& below : segment.below) count += CountRows(below);
  return count;
}

constexpr double kPictureSeconds = 0.2;
// With so few records each one is in a picture, even one that ends sooner.
constexpr size_t kFewRecords = 16;
constexpr double kSignOfLifeSeconds = 15.0;

}  // namespace

TaskRun::TaskRun(ServeContext& context, TaskRequest request, EngineCall& call)
    : context_(context),
      request_(std::move(request)),
      call_(call),
      window_([this](PromptSegment& prompt) { return call_.TrySubmit(prompt); }, *this),
      counts_(request_.records.size()),
      rows_(request_.records.size()) {}

void TaskRun::Advance() {
  for (;;) {
    if (!window_.Submit()) {
      if (call_.open() == 0) throw ApiError(429, "the queue is full: too many answers wait");
      return;
    }
    if (next_ == counts_.size() || next_ - finished_ >= MostAhead()) return;
    CheckBudget();
    Start(next_++);
  }
}

void TaskRun::Start(size_t record) {
  InputRow& row = request_.records[record];
  if (!row.problem && !request_.shared.is_null()) row.value["documents"] = request_.shared;
  RecordRunOptions options;
  options.adapter = request_.adapter;
  options.stream = request_.stream;
  window_.Add(record, *request_.task, *context_.model, row, options);
  row.value = Json();  // the window has copied what it needs
}

void TaskRun::Take(AnswerEvent event) {
  Counts& counts = counts_[RecordOfTag(event.tag)];
  new_record_ |= !std::exchange(counts.heard, true);
  if (event.ended) {
    const Answer& answer = event.answer;
    usage_.completion_tokens += static_cast<std::int64_t>(answer.tokens.size());
    if (counts.least_cached < 0 || answer.cached_tokens < counts.least_cached) {
      counts.least_cached = answer.cached_tokens;
    }
  }
  window_.Take(std::move(event));
}

void TaskRun::Asks(std::uint64_t record, std::span<const RecordPrompt> prompts) {
  PromptCounter counter;
  for (const RecordPrompt& prompt : prompts) {
    CheckCount(prompt.tree);
    const PromptCount count = counter.Count(prompt.tree);
    usage_.prompt_tokens += count.prompt_tokens;
    counts_[record].unique_tokens += count.unique_tokens;
  }
}

void TaskRun::Text(std::uint64_t record, size_t question, std::string text) {
  OrderedJson event = {{"type", "token"}};
  event.update(Place(record, question));
  event["text"] = std::move(text);
  events_ += EventText(DumpJson(event));
}

void TaskRun::Row(std::uint64_t record, size_t question, OutputRow row, std::string rest) {
  CheckBudget();  // a row repeats what its document and its question have
  if (!request_.stream) {
    std::vector<std::string>& rows = rows_[record];
    if (rows.size() <= question) rows.resize(question + 1);
    rows[question] = DumpJson(row.fields);
    return;
  }
  // The token events of a question make up the whole answer; values of extract have none.
  const bool repeats =
      request_.kind != TaskRequest::Kind::kExtract && !row.fields.contains("choice");
  if (repeats && !rest.empty()) Text(record, question, std::move(rest));
  OrderedJson event = {{"type", "answer"}};
  event.update(Place(record, question));
  event["row"] = std::move(row.fields);
  events_ += EventText(DumpJson(event));
}

void TaskRun::Cancelled(std::uint64_t, size_t, std::string) {
  throw ApiError(503, "the request was cancelled");
}

void TaskRun::Done(std::uint64_t record) {
  Counts& counts = counts_[record];
  counts.done = true;
  computed_ += std::max<std::int64_t>(
      0, counts.unique_tokens - std::max<std::int64_t>(0, counts.least_cached));
  ++finished_;
}

// How much of a request may be under way, and how much it may ask for.

// Counts what is not known before prompts are made: values of a schema, parts of a split document.
void TaskRun::CheckCount(const PromptSegment& prompt) {
  const std::int64_t rows = CountRows(prompt), most = context_.options.max_answers;
  asked_ += rows;
  const auto refuse = [](std::int64_t limit) {
    throw ApiError(400, fmt::format("more than {} answers are asked for (every value of a schema "
                                    "and every part of a long document counts)",
                                    limit));
  };
  // The first prompt of extract stands for all documents, so that a refusal comes before the work.
  const bool first = request_.kind == TaskRequest::Kind::kExtract && asked_ == rows;
  if (first && rows * static_cast<std::int64_t>(counts_.size()) > most) refuse(most);
  // Documents and questions were counted; what is made of them in several rounds may be as much.
  if (asked_ > 2 * most) refuse(2 * most);
}

size_t TaskRun::MostAhead() const {
  const size_t bytes_each = kBytesOfText * request_.shared_bytes;
  return std::clamp<size_t>(kBytesAhead / (bytes_each + 1), 1, kRecordsAhead);
}

std::int64_t TaskRun::UniqueTokens() const {
  std::int64_t unique = computed_;
  for (const Counts& counts : counts_) {
    if (!counts.done) unique += counts.unique_tokens;
  }
  return unique;
}

// A request's rows as they go out: all at once, or as events with pictures of the forest.

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
  const std::string totals = DumpJson(Totals());
  size_t bytes = totals.size() + 16;
  for (const std::vector<std::string>& of_record : rows_) {
    for (const std::string& row : of_record) bytes += row.size() + 1;
  }
  ChargeBudget(bytes);
  std::string body;
  body.reserve(bytes);
  body += R"({"rows":[)";
  const char* separator = "";
  for (std::vector<std::string>& of_record : rows_) {
    for (const std::string& row : of_record) {
      body += separator;
      body += row.empty() ? "null" : row;
      separator = ",";
    }
    of_record = {};
  }
  body += "],";
  body.append(totals, 1);  // without its brace
  return body;
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
  Advance();  // what it throws becomes a plain error reply
  HttpResponse head = EventStreamHead();
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
