// A request of /v1/ask, /v1/extract or /v1/rag: its records go through the engine, a window of them
// at a time (RecordWindow); rows as the command line writes them, shown as they end or all
// together.
#pragma once

#include <string>
#include <vector>

#include "serve/engine_call.h"
#include "serve/http.h"
#include "serve/task_request.h"
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
    bool heard = false;  // the engine has said something of it
    bool done = false;
  };

  // Makes prompts of further records and submits as many as the engine takes.
  void Advance();
  void Start(size_t record);
  void Take(AnswerEvent event);

  // What the records say (RecordListener).
  void Asks(std::uint64_t record, std::span<const RecordPrompt> prompts) override;
  void Text(std::uint64_t record, size_t question, std::string text) override;
  void Row(std::uint64_t record, size_t question, OutputRow row, std::string rest) override;
  void Cancelled(std::uint64_t record, size_t question, std::string rest) override;
  void Done(std::uint64_t record) override;

  // task_count.cc
  void CheckCount(const PromptSegment& prompt);
  size_t MostAhead() const;
  // Prompt tokens of the records so far, what they share counted once.
  std::int64_t UniqueTokens() const;

  // task_reply.cc
  bool AllDone() const { return finished_ == counts_.size(); }
  OrderedJson Place(size_t record, size_t question) const;
  std::string Picture() const;
  OrderedJson Totals() const;

  ServeContext& context_;
  TaskRequest request_;
  EngineCall& call_;
  RecordWindow window_;
  std::vector<Counts> counts_;                  // [records]
  std::vector<std::vector<OrderedJson>> rows_;  // [records]
  size_t next_ = 0, finished_ = 0;              // records
  Usage usage_;
  std::int64_t computed_ = 0;  // prompt tokens
  std::int64_t asked_ = 0;     // answers and experts of all prompts so far
  std::string events_;         // to be written; with stream
  bool new_record_ = false;    // one was heard of for the first time
};

}  // namespace banyan
