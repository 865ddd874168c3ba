// What clients see of batches, and what is kept of them. Answering the lines is batch_lines.cc.
#include "serve/batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/parameters.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

OrderedJson PublicBatch(OrderedJson batch) {
  batch.erase("tenant");
  batch.erase("scope");
  return batch;
}

bool IsOver(const OrderedJson& batch) {
  const std::string status = batch.value("status", "");
  return status == "completed" || status == "failed" || status == "cancelled";
}

}  // namespace

Batches::Batches(ServeContext& context, FileStore& files)
    : context_(context), files_(files), directory_(files.directory().parent_path() / "batches") {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) Throw(ErrorKind::kIo, "--state: {}: {}", directory_.string(), error.message());
  fs::permissions(directory_, fs::perms::owner_all, error);
  std::vector<std::pair<std::int64_t, std::string>> open;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() != ".json") continue;
    const std::string id = entry.path().stem().string();
    OrderedJson batch = OrderedJson::parse(ReadWholeFile(entry.path()), nullptr, false);
    if (!batch.is_object() || batch.value("id", "") != id) continue;
    if (batch.value("status", "") == "cancelling") cancelled_.insert(id);
    if (!IsOver(batch)) open.emplace_back(batch.value("created_at", 0ll), id);
    batches_.emplace(id, std::move(batch));
  }
  std::ranges::sort(open);
  for (auto& [created, id] : open) waiting_.push_back(std::move(id));
}

Batches::~Batches() { Stop(); }

void Batches::Start() {
  thread_ = std::thread([this] { Work(); });
}

void Batches::StopSoon() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  for (EngineCall* call : calls_) call->Cancel();
  changed_.notify_all();
}

void Batches::Stop() {
  StopSoon();
  if (thread_.joinable()) thread_.join();
}

bool Batches::Stopping(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return stopping_ || cancelled_.contains(id);
}

fs::path Batches::OutputOf(const std::string& id) const { return directory_ / (id + ".jsonl"); }

void Batches::Save(const OrderedJson& batch) {
  const std::string id = batch.at("id").get<std::string>();
  WriteWholeFile(directory_ / (id + ".json"), DumpJson(batch));
  batches_[id] = batch;
}

OrderedJson Batches::Known(const std::string& tenant, const std::string& id) const {
  const auto found = batches_.find(id);
  if (found == batches_.end() || found->second.value("tenant", "") != tenant) {
    throw ApiError(404, "there is no such batch", "batch_id", "batch_not_found");
  }
  return found->second;
}

std::string Batches::Create(const HttpRequest& request) {
  const Json json = ReadBody(request.body);
  Parameters parameters(json);
  const std::string input = parameters.Text("input_file_id", "");
  parameters.Needed("input_file_id");
  files_.PathOf(request.tenant, input);
  const std::string endpoint = parameters.Text("endpoint", "");
  if (endpoint != "/v1/chat/completions" && endpoint != "/v1/completions" &&
      endpoint != "/v1/embeddings") {
    parameters.Refuse("endpoint", "/v1/chat/completions, /v1/completions or /v1/embeddings");
  }
  if (parameters.Text("completion_window", "24h") != "24h") {
    parameters.Refuse("completion_window", "24h");
  }
  const Json* metadata = parameters.Find("metadata");
  if (metadata && (!metadata->is_object() || metadata->size() > 16)) {
    parameters.Refuse("metadata", "an object of at most 16 texts");
  }
  parameters.RefuseOthers();
  OrderedJson batch = {{"id", NewId("batch_")},    {"object", "batch"},
                       {"endpoint", endpoint},     {"errors", nullptr},
                       {"input_file_id", input},   {"completion_window", "24h"},
                       {"status", "validating"},   {"output_file_id", nullptr},
                       {"error_file_id", nullptr}, {"created_at", SecondsNow()}};
  for (const char* moment : {"in_progress_at", "expires_at", "finalizing_at", "completed_at",
                             "failed_at", "expired_at", "cancelling_at", "cancelled_at"}) {
    batch[moment] = nullptr;
  }
  batch["request_counts"] = {{"total", 0}, {"completed", 0}, {"failed", 0}};
  batch["metadata"] = metadata ? OrderedJson(*metadata) : OrderedJson();
  batch["tenant"] = request.tenant;
  batch["scope"] = request.scope;
  const std::lock_guard lock(mutex_);
  Save(batch);
  waiting_.push_back(batch.at("id").get<std::string>());
  changed_.notify_all();
  return DumpJson(PublicBatch(std::move(batch)));
}

std::string Batches::Describe(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  return DumpJson(PublicBatch(Known(tenant, id)));
}

std::string Batches::List(const HttpRequest& request) {
  std::vector<OrderedJson> found;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, batch] : batches_) {
      if (batch.value("tenant", "") == request.tenant) found.push_back(PublicBatch(batch));
    }
  }
  std::ranges::sort(found, std::ranges::greater(), [](const OrderedJson& batch) {
    return std::pair(batch.value("created_at", 0ll), batch.value("id", ""));
  });
  // A page of them: after=ID, limit=N.
  const std::string after = request.query_value("after");
  const std::string limit_text = request.query_value("limit");
  size_t limit = 20;
  if (!limit_text.empty()) {
    limit = static_cast<size_t>(std::clamp(std::atoi(limit_text.c_str()), 1, 100));
  }
  if (!after.empty()) {
    const auto place = std::ranges::find(
        found, after, [](const OrderedJson& batch) { return batch.value("id", ""); });
    found.erase(found.begin(), place == found.end() ? place : place + 1);
  }
  const bool more = found.size() > limit;
  if (more) found.resize(limit);
  OrderedJson list = {{"object", "list"}, {"data", found}};
  list["first_id"] = found.empty() ? OrderedJson() : found.front().at("id");
  list["last_id"] = found.empty() ? OrderedJson() : found.back().at("id");
  list["has_more"] = more;
  return DumpJson(list);
}

std::string Batches::Cancel(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  OrderedJson batch = Known(tenant, id);
  if (!IsOver(batch)) {
    batch["status"] = "cancelling";
    batch["cancelling_at"] = SecondsNow();
    Save(batch);
    cancelled_.insert(id);
    // Those of another batch are asked again.
    for (EngineCall* call : calls_) call->Cancel();
    changed_.notify_all();
  }
  return DumpJson(PublicBatch(std::move(batch)));
}

void Batches::Work() {
  for (;;) {
    std::string id;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      id = waiting_.front();
      waiting_.pop_front();
    }
    try {
      Run(id);
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      OrderedJson batch = batches_.at(id);
      batch["status"] = "failed";
      batch["failed_at"] = SecondsNow();
      batch["errors"] = {{"object", "list"},
                         {"data", {{{"code", "failed"}, {"message", error.what()}}}}};
      try {
        Save(batch);
      } catch (const std::exception&) {  // the disk refuses that too: seen again at the next start
        batches_[id] = batch;
      }
    }
  }
}

}  // namespace banyan
