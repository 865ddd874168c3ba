// What clients see of batches, what is kept of them, and the thread that runs them.
#include "serve/batches/batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "serve/batches/batch_run.h"
#include "serve/request/api_error.h"
#include "serve/request/parameters.h"

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

constexpr std::int64_t kMostBatches = 10'000;  // of a tenant
// OpenAI's, of metadata.
constexpr size_t kMostPairs = 16;
constexpr std::int64_t kLongestName = 64, kLongestValue = 512;  // characters

OrderedJson ReadMetadata(Parameters& parameters) {
  const Json* metadata = parameters.Find("metadata");
  if (metadata == nullptr) return {};
  const auto fits = [](const std::string& name, const Json& value) {
    return CountCharacters(name) <= kLongestName && value.is_string() &&
           CountCharacters(value.get_ref<const std::string&>()) <= kLongestValue;
  };
  bool good = metadata->is_object() && metadata->size() <= kMostPairs;
  if (good) {
    for (const auto& [name, value] : metadata->items()) good = good && fits(name, value);
  }
  if (!good) {
    parameters.Refuse("metadata", fmt::format("an object of at most {} texts, names of at most {} "
                                              "characters, values of at most {}",
                                              kMostPairs, kLongestName, kLongestValue));
  }
  return OrderedJson(*metadata);
}

}  // namespace

OrderedJson BatchErrors(const char* code, const std::string& message) {
  return {{"object", "list"}, {"data", {{{"code", code}, {"message", message}}}}};
}

RunningCalls::Entry::Entry(RunningCalls& calls, EngineCall& call) : calls_(calls), call_(call) {
  const std::lock_guard lock(calls_.mutex_);
  calls_.calls_.insert(&call_);
}

RunningCalls::Entry::~Entry() {
  const std::lock_guard lock(calls_.mutex_);
  calls_.calls_.erase(&call_);
}

void RunningCalls::Cancel() {
  const std::lock_guard lock(mutex_);
  for (EngineCall* call : calls_) call->Cancel();
}

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
    files_.Count(batch.value("tenant", ""), CostOfFile(0), /*anyway=*/true);
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
  calls_.Cancel();
  changed_.notify_all();
}

void Batches::Stop() {
  StopSoon();
  if (thread_.joinable()) thread_.join();
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
      BatchRun(context_, files_, *this, id).Run();
    } catch (const ApiError& error) {
      Fail(id, error.what());
    } catch (const std::exception&) {  // messages about files contain paths of this machine
      Fail(id, "the batch's output on the server is not what it was");
    }
  }
}

void Batches::Fail(const std::string& id, const std::string& message) {
  const std::lock_guard lock(mutex_);
  OrderedJson batch = batches_.at(id);
  batch["status"] = "failed";
  batch["failed_at"] = SecondsNow();
  batch["errors"] = BatchErrors("failed", message);
  try {
    Save(batch);
  } catch (const std::exception&) {  // the disk refuses that too: seen again at the next start
    batches_[id] = batch;
  }
}

Batches::OrderedJson Batches::Update(
    const std::string& id, const std::function<void(OrderedJson& batch, bool cancelled)>& change) {
  const std::lock_guard lock(mutex_);
  OrderedJson batch = batches_.at(id);
  change(batch, cancelled_.contains(id));
  Save(batch);
  return batch;
}

void Batches::Note(const std::string& id, const char* field, OrderedJson value) {
  const std::lock_guard lock(mutex_);
  batches_[id][field] = std::move(value);
}

bool Batches::IsCancelled(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return cancelled_.contains(id);
}

bool Batches::ShouldStop(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return stopping_ || cancelled_.contains(id);
}

bool Batches::Sleep(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
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
  OrderedJson metadata = ReadMetadata(parameters);
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
  batch["metadata"] = std::move(metadata);
  batch["tenant"] = request.tenant;
  batch["scope"] = request.scope;
  const std::lock_guard lock(mutex_);
  const std::int64_t there = std::ranges::count_if(batches_, [&](const auto& known) {
    return known.second.value("tenant", "") == request.tenant;
  });
  if (there >= kMostBatches) {
    throw ApiError(413, "you have too many batches; delete some", "", "storage_full");
  }
  files_.Count(request.tenant, CostOfFile(0), /*anyway=*/false);
  try {
    Save(batch);
  } catch (const Error&) {
    files_.Count(request.tenant, -CostOfFile(0), /*anyway=*/true);
    throw ApiError(503, "the server cannot write to its disk now", "", "disk_full");
  }
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
    try {
      Save(batch);
    } catch (const Error&) {  // the disk is full: it ends all the same, if this server lives
      batches_[id] = batch;
    }
    cancelled_.insert(id);
    calls_.Cancel();  // those of another batch are asked again
    changed_.notify_all();
  }
  return DumpJson(PublicBatch(std::move(batch)));
}

std::string Batches::Delete(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (!IsOver(Known(tenant, id))) {
    throw ApiError(409, "the batch is not over; cancel it first", "batch_id", "batch_not_over");
  }
  batches_.erase(id);
  cancelled_.erase(id);
  std::error_code ignored;
  fs::remove(directory_ / (id + ".json"), ignored);
  files_.Count(tenant, -CostOfFile(0), /*anyway=*/true);
  return DumpJson(OrderedJson{{"id", id}, {"object", "batch"}, {"deleted", true}});
}

}  // namespace banyan
