// Records of /v1/ask, /v1/extract and /v1/rag on their way through the engine, a window of them at
// a time; rows as the command line writes them, shown as they end or all together.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "serve/engine_call.h"
#include "serve/http.h"
#include "serve/task_request.h"

namespace banyan {

class AskWork;

class TaskRun {
 public:
  TaskRun(ServeContext& context, TaskRequest request);
  ~TaskRun();

  // The reply's body. Throws ApiError.
  std::string Whole(EngineCall& call);
  void Stream(EngineCall& call, HttpReply& reply);

 private:
  using OrderedJson = nlohmann::ordered_json;
  struct Record;

  // Makes prompts of further records and submits as many as the engine takes.
  void Advance(EngineCall& call);
  void Start(Record& record);
  void Queue(Record& record, std::vector<PromptSegment> prompts);
  void Count(const PromptSegment& prompt);
  size_t MostAhead() const;
  void Take(AnswerEvent event);
  void ShowText(Record& record, std::uint64_t tag, const AnswerEvent& event);
  void PutText(const Record& record, size_t question, std::string text);
  // Shows the questions of ask that have their answers; all rows when the record is done.
  void ShowRows(Record& record, bool done);
  void Put(size_t record, size_t question, OrderedJson row);
  void Finish(Record& record);
  // Prompt tokens of the records so far, what they share counted once.
  std::int64_t UniqueTokens() const;
  bool Done() const { return finished_ == records_.size(); }

  OrderedJson Place(size_t record, size_t question) const;
  std::string Picture(EngineCall& call) const;
  OrderedJson Totals(const EngineCall& call) const;

  ServeContext& context_;
  TaskRequest request_;
  std::vector<std::unique_ptr<Record>> records_;
  std::vector<std::vector<OrderedJson>> rows_;  // [records]
  size_t next_ = 0, finished_ = 0;              // records
  struct Prompt {
    size_t record;
    PromptSegment tree;
    std::int64_t answers;
  };
  std::deque<Prompt> waiting_;                            // to be submitted
  std::vector<std::pair<RequestId, size_t>> records_of_;  // requests → records
  Usage usage_;
  std::int64_t computed_ = 0;  // prompt tokens
  std::int64_t asked_ = 0;     // answers and experts of all prompts so far
  std::string events_;         // to be written; with stream
  bool new_record_ = false;    // one was heard of for the first time
};

}  // namespace banyan
