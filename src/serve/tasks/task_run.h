// A request of /v1/ask, /v1/extract or /v1/rag: its records go through the engine, a window of them
// at a time (RecordWindow). Rows are those of the command line, sent as they end or all together.
#pragma once

#include <string>
#include <vector>

#include "serve/http/http.h"
#include "serve/request/engine_call.h"
#include "serve/tasks/task_request.h"
#include "tasks/job/record_window.h"

namespace banyan {

class TaskRun : private RecordListener {
 public:
  TaskRun(ServeContext& context, TaskRequest request, EngineCall& call);

  // The reply's body. Throws ApiError.
  std::string Whole();
  void Stream(HttpReply& reply);

 private:
  using OrderedJson = nlohmann::ordered_json;
  // What of a record counts for the request's totals.
  struct Counts {
    std::int64_t unique_tokens = 0, least_cached = -1;
    bool heard = false;  // the engine has reported on it
    bool done = false;
  };

  // Makes prompts of further records and submits as many as the engine takes.
  void Advance();
  void Start(size_t record);
  void Take(AnswerEvent event);

  // RecordListener
  void Asks(std::uint64_t record, std::span<const RecordPrompt> prompts) override;
  void Text(std::uint64_t record, size_t question, std::string text) override;
  void Row(std::uint64_t record, size_t question, OutputRow row, std::string rest) override;
  void Cancelled(std::uint64_t record, size_t question, std::string rest) override;
  void Done(std::uint64_t record) override;

  // Throws ApiError 400 when the request asks for too many answers.
  void CheckCount(const PromptSegment& prompt);
  size_t MostAhead() const;  // records under way at once
  // Prompt tokens of the records so far, what they share counted once.
  std::int64_t UniqueTokens() const;

  bool AllDone() const { return finished_ == counts_.size(); }
  OrderedJson Place(size_t record, size_t question) const;
  std::string Picture() const;
  OrderedJson Totals() const;

  ServeContext& context_;
  TaskRequest request_;
  EngineCall& call_;
  RecordWindow window_;
  std::vector<Counts> counts_;                  // [records]
  std::vector<std::vector<std::string>> rows_;  // [records] as JSON; without stream
  size_t next_ = 0, finished_ = 0;              // records
  Usage usage_;
  std::int64_t computed_ = 0;  // prompt tokens
  std::int64_t asked_ = 0;     // answers and experts of all prompts so far
  std::string events_;         // to be written; with stream
  bool new_record_ = false;    // the engine reported on one for the first time
};

}  // namespace banyan
