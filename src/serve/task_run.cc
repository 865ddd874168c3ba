#include "serve/task_run.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "base/work_budget.h"
#include "serve/api_error.h"
#include "serve/completion.h"
#include "tasks/ask_work.h"
#include "tasks/prompt_counter.h"
#include "tasks/row_adapter.h"

namespace banyan {
namespace {

constexpr int kTagBits = 24;  // of a record's own tags

// A record's own tags get its number before them. The check has no test: tags count a record's
// answers, and no body has room for 2^24 of them (its values take 64 MiB at most, 32 bytes each).
void RaiseTags(PromptSegment& segment, std::uint64_t bits) {
  const auto raise = [&](std::uint64_t& tag) {
    if (tag >> kTagBits != 0) {
      throw ApiError(400, "a document or question has more parts than can be counted");
    }
    tag |= bits;
  };
  for (AnswerRequest& answer : segment.answers) raise(answer.tag);
  for (ExpertRequest& expert : segment.experts) raise(expert.tag);
  for (PromptSegment& below : segment.below) RaiseTags(below, bits);
}

template <typename Visit>
void ForEachAnswer(PromptSegment& segment, const Visit& visit) {
  for (AnswerRequest& answer : segment.answers) visit(answer);
  for (PromptSegment& below : segment.below) ForEachAnswer(below, visit);
}

}  // namespace

struct TaskRun::Record {
  size_t index = 0;
  std::unique_ptr<RecordWork> work;
  AskWork* ask = nullptr;  // the work, when it is one of ask
  std::string adapter;     // empty: none
  std::int64_t missing = 0;
  std::int64_t unique_tokens = 0, least_cached = -1;
  std::vector<bool> shown;      // [questions of ask]
  std::vector<LiveText> texts;  // of streamed answers, by question
  bool heard = false;           // the engine has said something of it
  bool done = false;
};

TaskRun::TaskRun(ServeContext& context, TaskRequest request)
    : context_(context), request_(std::move(request)) {
  records_.resize(request_.records.size());
  rows_.resize(records_.size());
}

TaskRun::~TaskRun() = default;

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

void TaskRun::Put(size_t record, size_t question, OrderedJson row) {
  if (request_.stream) {
    OrderedJson event = {{"type", "answer"}};
    event.update(Place(record, question));
    event["row"] = std::move(row);
    events_ += EventText(DumpJson(event));
    return;
  }
  std::vector<OrderedJson>& rows = rows_[record];
  if (rows.size() <= question) rows.resize(question + 1);
  rows[question] = std::move(row);
}

void TaskRun::Start(Record& record) {
  InputRow& row = request_.records[record.index];
  std::vector<PromptSegment> prompts;
  if (!row.problem) {
    try {
      if (!request_.shared.is_null()) row.value["documents"] = request_.shared;
      record.adapter = AdapterOfRow(row, *context_.model);
      if (record.adapter.empty()) record.adapter = request_.adapter;
      record.work = request_.task->Start(row);
      if (request_.kind == TaskRequest::Kind::kAsk) {
        record.ask = static_cast<AskWork*>(record.work.get());
        const auto questions = static_cast<size_t>(record.ask->row_count());
        record.shown.resize(questions, false);
        record.texts.resize(questions);
      } else {
        record.texts.resize(1);
      }
      prompts = record.work->NextPrompts();
    } catch (const WorkStopped&) {
      throw;
    } catch (const std::exception& error) {
      row.problem = ProblemOf(error);
    }
  }
  if (row.problem) {
    if (!request_.shared.is_null()) row.value.erase("documents");
    record.work.reset();
    Put(record.index, 0, request_.task->ErrorRow(row, *row.problem).fields);
    return Finish(record);
  }
  row.value = Json();  // the work has what it needs
  Queue(record, std::move(prompts));
}

void TaskRun::Queue(Record& record, std::vector<PromptSegment> prompts) {
  PromptCounter counter;
  for (PromptSegment& prompt : prompts) {
    Count(prompt);
    prompt.adapter = record.adapter;
    const PromptCount count = counter.Count(prompt);
    usage_.prompt_tokens += count.prompt_tokens;
    record.unique_tokens += count.unique_tokens;
    ForEachAnswer(prompt, [&](AnswerRequest& answer) {
      const bool is_text = record.ask ? record.ask->IsPlain(answer.tag)
                                      : request_.kind == TaskRequest::Kind::kRag && answer.tag == 0;
      answer.stream = request_.stream && is_text && answer.forced.empty();
    });
    RaiseTags(prompt, static_cast<std::uint64_t>(record.index) << kTagBits);
    const std::int64_t answers = CountAnswers(prompt);
    record.missing += answers;
    waiting_.push_back({record.index, std::move(prompt), answers});
  }
  ShowRows(record, prompts.empty() || record.missing == 0);
}

void TaskRun::Advance(EngineCall& call) {
  for (;;) {
    while (!waiting_.empty()) {
      Prompt& prompt = waiting_.front();
      Record& record = *records_[prompt.record];
      try {
        if (!call.TrySubmit(prompt.tree)) {
          if (call.open() == 0) throw ApiError(429, "the queue is full: too many answers wait");
          return;
        }
        records_of_.emplace_back(call.requests().back(), prompt.record);
      } catch (const Error& error) {
        record.missing -= prompt.answers;
        record.work->Refuse(error);
      }
      waiting_.pop_front();
      if (record.missing == 0) ShowRows(record, true);
    }
    if (next_ == records_.size() || next_ - finished_ >= MostAhead()) return;
    CheckBudget();
    records_[next_] = std::make_unique<Record>();
    records_[next_]->index = next_;
    Start(*records_[next_++]);
  }
}

void TaskRun::Take(AnswerEvent event) {
  Record& record = *records_[event.tag >> kTagBits];
  const std::uint64_t tag = event.tag & ((std::uint64_t{1} << kTagBits) - 1);
  new_record_ |= !std::exchange(record.heard, true);
  if (request_.stream) ShowText(record, tag, event);
  if (!event.ended) return;
  Answer& answer = event.answer;
  if (answer.finish == FinishReason::kCancelled) {
    throw ApiError(503, "the request was cancelled");
  }
  usage_.completion_tokens += static_cast<std::int64_t>(answer.tokens.size());
  if (record.least_cached < 0 || answer.cached_tokens < record.least_cached) {
    record.least_cached = answer.cached_tokens;
  }
  answer.tag = tag;
  record.work->Take(std::move(answer));
  --record.missing;
  if (record.missing > 0) return ShowRows(record, false);
  std::vector<PromptSegment> prompts = record.work->NextPrompts();
  const bool done = prompts.empty();
  if (done) return ShowRows(record, true);
  Queue(record, std::move(prompts));
}

// What can be shown of an answer that is being written.
void TaskRun::ShowText(Record& record, std::uint64_t tag, const AnswerEvent& event) {
  if (record.ask == nullptr) {
    record.texts.front().Add(event.text);
    return PutText(record, 0, record.texts.front().Take({}));
  }
  if (!record.ask->IsPlain(tag)) return;
  const size_t question = record.ask->QuestionOf(tag);
  LiveText& text = record.texts[question];
  record.ask->Hear(tag, event.logprobs);
  text.Add(event.text);
  PutText(record, question, text.Take(record.ask->ShowRules(tag)));
  // What is asked about again is not shown.
  if (event.ended && !text.began()) text.Clear();
}

void TaskRun::PutText(const Record& record, size_t question, std::string text) {
  if (text.empty()) return;
  OrderedJson event = {{"type", "token"}};
  event.update(Place(record.index, question));
  event["text"] = std::move(text);
  events_ += EventText(DumpJson(event));
}

void TaskRun::ShowRows(Record& record, bool done) {
  if (record.done) return;
  if (record.ask) {
    for (size_t i = 0; i < record.shown.size(); ++i) {
      if (record.shown[i] || !(done || record.ask->IsAnswered(i))) continue;
      record.shown[i] = true;
      OrderedJson fields = record.ask->Row(i).fields;
      // Whoever reads the tokens alone has the whole answer too.
      const auto answer = fields.find("answer");
      if (request_.stream && answer != fields.end() && answer->is_string() &&
          !fields.contains("choice")) {
        PutText(record, i, record.texts[i].TakeRest(answer->get_ref<const std::string&>()));
      }
      Put(record.index, i, std::move(fields));
    }
  } else if (done) {
    const std::vector<OutputRow> rows = record.work->Rows();
    for (size_t i = 0; i < rows.size(); ++i) Put(record.index, i, rows[i].fields);
  }
  if (done) Finish(record);
}

void TaskRun::Finish(Record& record) {
  record.done = true;
  const std::int64_t computed = std::max<std::int64_t>(
      0, record.unique_tokens - std::max<std::int64_t>(0, record.least_cached));
  computed_ += computed;
  record.work.reset();
  record.ask = nullptr;
  ++finished_;
}

std::int64_t TaskRun::UniqueTokens() const {
  std::int64_t unique = computed_;
  for (const auto& record : records_) {
    if (record && !record->done) unique += record->unique_tokens;
  }
  return unique;
}

}  // namespace banyan
