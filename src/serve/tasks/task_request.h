// What a body of /v1/ask, /v1/extract or /v1/rag asks for: a task with its options, and the records
// that it works on, as the command line would read them from a file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/request/context.h"
#include "tasks/job/task.h"

namespace banyan {

struct TaskRequest {
  enum class Kind { kAsk, kExtract, kRag };
  Kind kind = Kind::kAsk;
  std::unique_ptr<Task> task;
  std::vector<InputRow> records;   // documents; of rag questions
  std::int64_t questions = 0;      // of each document of ask; of rag all
  Json documents = Json::array();  // of the first event: {"id","characters"}
  Json shared;              // of rag: the documents of every question; null: an index has them
  size_t shared_bytes = 0;  // of their texts
  std::string adapter;      // of records that name none; empty: none
  bool stream = false;
  bool forest = false;  // with stream: pictures of what is shared
};

// Throw ApiError for what makes no sense as a whole. A document or question that cannot be asked
// becomes an error row later.
TaskRequest ReadAskRequest(ServeContext& context, std::string_view body);
TaskRequest ReadExtractRequest(ServeContext& context, std::string_view body);
TaskRequest ReadRagRequest(ServeContext& context, std::string_view body);

}  // namespace banyan
