#include "serve/task_run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "base/work_budget.h"
#include "serve/api_error.h"
#include "serve/completion.h"
#include "tasks/job/prompt_counter.h"

namespace banyan {

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
  row.value = Json();  // the work has what it needs
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
  if (!request_.stream) {
    std::vector<OrderedJson>& rows = rows_[record];
    if (rows.size() <= question) rows.resize(question + 1);
    rows[question] = std::move(row.fields);
    return;
  }
  // Whoever reads the tokens of ask alone has the whole answer too.
  const bool repeats = request_.kind == TaskRequest::Kind::kAsk && !row.fields.contains("choice");
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

}  // namespace banyan
