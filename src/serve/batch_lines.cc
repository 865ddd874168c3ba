// One line of a batch → its answer, asked until the engine takes it.
#include <chrono>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/json_limits.h"
#include "base/json_row.h"
#include "base/work_budget.h"
#include "serve/api_error.h"
#include "serve/batch_rows.h"
#include "serve/batches.h"
#include "serve/completion.h"
#include "serve/embeddings.h"
#include "serve/parameters.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kBehindOthers = -1;  // priority
constexpr auto kBusyPatience = std::chrono::milliseconds(100);

// A call that can be cancelled from outside, as long as it is there.
class ListedCall {
 public:
  ListedCall(std::mutex& mutex, std::set<EngineCall*>& calls, EngineCall& call)
      : mutex_(mutex), calls_(calls), call_(call) {
    const std::lock_guard lock(mutex_);
    calls_.insert(&call_);
  }
  ~ListedCall() {
    const std::lock_guard lock(mutex_);
    calls_.erase(&call_);
  }
  ListedCall(const ListedCall&) = delete;
  ListedCall& operator=(const ListedCall&) = delete;

 private:
  std::mutex& mutex_;
  std::set<EngineCall*>& calls_;
  EngineCall& call_;
};

}  // namespace

std::string CustomIdOf(const std::string& line) {
  try {
    const Json json = ParseJsonRow(line, kBodyLimits);
    const bool there =
        json.is_object() && json.contains("custom_id") && json["custom_id"].is_string();
    return there ? json["custom_id"].get<std::string>() : std::string();
  } catch (const Error&) {
    return {};
  }
}

OrderedJson BatchRow(const std::string& custom_id, int status, OrderedJson body) {
  OrderedJson row;
  row["id"] = NewId("batch_req_");
  row["custom_id"] = custom_id;
  row["response"] = {
      {"status_code", status}, {"request_id", NewId("req_")}, {"body", std::move(body)}};
  row["error"] = nullptr;
  return row;
}

OrderedJson BatchErrorRow(const std::string& custom_id, const ApiError& error) {
  return BatchRow(custom_id, error.status(), OrderedJson::parse(error.ToJson()));
}

std::string Batches::AnswerBody(const OrderedJson& batch, const std::string& body) {
  const std::string endpoint = batch.at("endpoint").get<std::string>();
  const std::string id = batch.at("id").get<std::string>();
  const auto scope = batch.value("scope", std::uint64_t{0});
  WorkBudget budget;
  budget.unwanted = [&] { return broken_ || Stopping(id); };
  const BudgetScope budget_scope(budget);
  for (;;) {
    if (budget.unwanted()) throw LineStopped();
    try {
      if (endpoint == "/v1/embeddings") return Embeddings(context_, body);
      const auto read = endpoint == "/v1/completions" ? ReadTextCompletion : ReadChatCompletion;
      CompletionRequest request = read(context_, body, scope);
      if (request.stream) throw ApiError(400, "'stream': a batch has no streams", "stream");
      EngineCall call(context_, scope, kBehindOthers, nullptr);
      const ListedCall listed(mutex_, calls_, call);
      return Completion(context_, std::move(request)).Whole(call);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const WorkStopped&) {  // seen above, or there is no room now
    } catch (const std::exception& error) {
      // The queue is full, or somebody cancelled: this batch, another one or the server itself.
      const int status = AsApiError(error).status();
      if (status != 429 && status != 503) throw;
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kBusyPatience, [this] { return stopping_; });
  }
}

OrderedJson Batches::AnswerLine(const std::string& line, const OrderedJson& batch) {
  const std::string custom_id = CustomIdOf(line);
  try {
    const Json json = ParseJsonRow(line, kBodyLimits);
    if (!json.is_object() || custom_id.empty() || !json.contains("body") ||
        json.value("method", "POST") != "POST" ||
        json.value("url", Json()) != batch.at("endpoint").get<std::string>()) {
      throw ApiError(
          400, R"(expected {"custom_id","method":"POST","url":the batch's endpoint,"body":{…}})");
    }
    // As it is written: the order of a schema's properties says how an answer is written.
    constexpr const char* kBody[] = {"body"};
    const std::string body(JsonValueText(line, kBody));
    return BatchRow(custom_id, 200, OrderedJson::parse(AnswerBody(batch, body)));
  } catch (const std::exception& error) {
    return BatchErrorRow(custom_id, AsApiError(error));
  }
}

}  // namespace banyan
