// A batch's lines → answers, several at a time; each is written once, whatever happens.
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/batches.h"
#include "serve/completion.h"
#include "serve/embeddings.h"
#include "tasks/output.h"
#include "tasks/record_ledger.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kLinesAtOnce = 32;
constexpr int kBehindOthers = -1;  // priority
constexpr auto kPatience = std::chrono::milliseconds(100);

// The batch was stopped while the line was answered: it is answered again later.
struct LineStopped {};

Json HeaderOf(const Model& model, const OrderedJson& batch) {
  return {
      {"task", "batch"},
      {"model", ParseJson(model.identity(), "the model's identity")},
      {"parameters", {{"endpoint", batch.at("endpoint")}, {"input", batch.at("input_file_id")}}}};
}

std::string CustomIdOf(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool there =
      json.is_object() && json.contains("custom_id") && json["custom_id"].is_string();
  return there ? json["custom_id"].get<std::string>() : std::string();
}

OrderedJson RowOf(const std::string& custom_id, int status, OrderedJson body) {
  OrderedJson row;
  row["id"] = NewId("batch_req_");
  row["custom_id"] = custom_id;
  row["response"] = {
      {"status_code", status}, {"request_id", NewId("req_")}, {"body", std::move(body)}};
  row["error"] = nullptr;
  return row;
}

OrderedJson ErrorRowOf(const std::string& custom_id, const ApiError& error) {
  return RowOf(custom_id, error.status(), OrderedJson::parse(error.ToJson()));
}

}  // namespace

std::string Batches::AnswerBody(const OrderedJson& batch, const std::string& body) {
  const std::string endpoint = batch.at("endpoint").get<std::string>();
  const std::string id = batch.at("id").get<std::string>();
  if (endpoint == "/v1/embeddings") return Embeddings(context_, body);
  const auto read = endpoint == "/v1/completions" ? ReadTextCompletion : ReadChatCompletion;
  for (;;) {
    CompletionRequest request = read(context_, body);
    if (request.stream) throw ApiError(400, "'stream': a batch has no streams", "stream");
    EngineCall call(context_, batch.value("scope", std::uint64_t{0}), kBehindOthers, nullptr);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_ || cancelled_.contains(id)) throw LineStopped();
      calls_.insert(&call);
    }
    std::string answer;
    bool again = false;
    try {
      answer = Completion(context_, std::move(request)).Whole(call);
    } catch (const ApiError& error) {
      // The queue is full, or somebody cancelled: this batch, another one or the server itself.
      if (error.status() != 429 && error.status() != 503) {
        const std::lock_guard lock(mutex_);
        calls_.erase(&call);
        throw;
      }
      again = true;
    }
    {
      std::unique_lock lock(mutex_);
      calls_.erase(&call);
      if (!again) return answer;
      changed_.wait_for(lock, kPatience, [this] { return stopping_; });
    }
  }
}

OrderedJson Batches::AnswerLine(const std::string& line, const OrderedJson& batch) {
  const std::string custom_id = CustomIdOf(line);
  try {
    const Json json = ParseJsonRow(line);
    if (!json.is_object() || custom_id.empty() || !json.contains("body") ||
        json.value("method", "POST") != "POST" ||
        json.value("url", Json()) != batch.at("endpoint").get<std::string>()) {
      throw ApiError(
          400, R"(expected {"custom_id","method":"POST","url":the batch's endpoint,"body":{…}})");
    }
    // Properties keep their order: a schema's says how an answer is written.
    const std::string body = DumpJson(OrderedJson::parse(line).at("body"));
    return RowOf(custom_id, 200, OrderedJson::parse(AnswerBody(batch, body)));
  } catch (const std::exception& error) {
    return ErrorRowOf(custom_id, AsApiError(error));
  }
}

bool Batches::AnswerLines(const std::string& id, const OrderedJson& batch) {
  JobOptions options;
  options.output = OutputOf(id).string();
  options.resume = true;
  JobOutput output(options, {}, HeaderOf(*context_.model, batch));
  std::ifstream input(
      files_.PathOf(batch.value("tenant", ""), batch.at("input_file_id").get<std::string>()),
      std::ios::binary);
  RecordLedger ledger;
  std::mutex lines;  // guards input, ledger, output and total
  std::int64_t total = output.done_before();
  bool cut_short = false;
  const auto next_line = [&](std::string& line, RecordLedger::Verdict& verdict) {
    const std::lock_guard lock(lines);
    while (std::getline(input, line)) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      verdict = ledger.Judge(CustomIdOf(line), line,
                             [&](const Key128& key) { return output.IsDone(key); });
      if (verdict.done) continue;
      ++total;
      return true;
    }
    return false;
  };
  const auto work = [&] {
    std::string line;
    RecordLedger::Verdict verdict;
    while (!Stopping(id) && next_line(line, verdict)) {
      OutputRow row;
      try {
        row.fields = verdict.duplicate
                         ? ErrorRowOf(CustomIdOf(line),
                                      ApiError(400, "an earlier line has the same custom_id"))
                         : AnswerLine(line, batch);
      } catch (const LineStopped&) {
        break;
      }
      row.error = row.fields["response"]["status_code"] != 200;
      row.identity = DumpJson(OrderedJson{row.fields["custom_id"]});
      const std::lock_guard lock(lines);
      output.Write(verdict.key, std::span(&row, 1));
    }
    if (Stopping(id)) {
      const std::lock_guard lock(lines);
      cut_short = true;
    }
  };
  std::atomic<int> running = kLinesAtOnce;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int i = 0; i < kLinesAtOnce; ++i) {
    threads.emplace_back([&] {
      try {
        work();
      } catch (...) {
        const std::lock_guard lock(lines);
        if (!failure) failure = std::current_exception();
      }
      --running;
    });
  }
  while (running > 0) {
    std::this_thread::sleep_for(kPatience);
    const std::lock_guard lock(lines);
    if (!failure) output.Tick();
    const std::lock_guard known(mutex_);
    batches_[id]["request_counts"] = {{"total", total},
                                      {"completed", output.rows() - output.error_rows()},
                                      {"failed", output.error_rows()}};
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  output.Finish(!cut_short);
  const std::lock_guard lock(mutex_);
  batches_[id]["request_counts"] = {{"total", total},
                                    {"completed", output.rows() - output.error_rows()},
                                    {"failed", output.error_rows()}};
  return !cut_short;
}

// Answers and errors in files of their own.
void Batches::Conclude(const std::string& id) {
  std::string answers, errors;
  std::ifstream output(OutputOf(id), std::ios::binary);
  for (std::string line; std::getline(output, line);) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const bool good = row.is_object() && row["response"]["status_code"] == 200;
    (good ? answers : errors) += line + "\n";
  }
  OrderedJson batch;
  {
    const std::lock_guard lock(mutex_);
    batch = batches_.at(id);
  }
  const std::string tenant = batch.value("tenant", "");
  if (!answers.empty()) {
    batch["output_file_id"] = files_.Keep(tenant, id + "_output.jsonl", "batch_output", answers);
  }
  if (!errors.empty()) {
    batch["error_file_id"] = files_.Keep(tenant, id + "_error.jsonl", "batch_output", errors);
  }
  const std::lock_guard lock(mutex_);
  const bool cancelled = cancelled_.contains(id);
  batch["status"] = cancelled ? "cancelled" : "completed";
  batch[cancelled ? "cancelled_at" : "completed_at"] = SecondsNow();
  Save(batch);
  // Its rows are in files that clients can fetch and delete.
  std::error_code ignored;
  std::filesystem::remove(OutputOf(id), ignored);
  std::filesystem::remove(OutputOf(id).string() + ".journal", ignored);
}

void Batches::Run(const std::string& id) {
  OrderedJson batch;
  {
    const std::lock_guard lock(mutex_);
    batch = batches_.at(id);
    if (!cancelled_.contains(id)) batch["status"] = "in_progress";
    if (batch["in_progress_at"].is_null()) batch["in_progress_at"] = SecondsNow();
    Save(batch);
  }
  const bool complete = AnswerLines(id, batch);
  {
    const std::lock_guard lock(mutex_);
    if (!complete && !cancelled_.contains(id)) return;  // the server stops: another goes on
    batch = batches_.at(id);
    batch["finalizing_at"] = SecondsNow();
    Save(batch);
  }
  Conclude(id);
}

}  // namespace banyan
