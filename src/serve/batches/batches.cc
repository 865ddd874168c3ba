// What clients see of batches, what is kept of them, and the thread that runs them.
#include "serve/batches/batches.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "base/work_budget.h"
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
  batch.erase("cost");
  return batch;
}

// Bytes of its description, on the disk and in memory: they are kept with it as "cost".
std::int64_t CostOf(const OrderedJson& batch) { return batch.at("cost").get<std::int64_t>(); }
std::int64_t MeasuredCost(const OrderedJson& batch) {
  return CostOfFile(DumpJson(batch.value("metadata", OrderedJson())).size());
}

bool IsOver(const OrderedJson& batch) {
  const std::string status = batch.value("status", "");
  return status == "completed" || status == "failed" || status == "cancelled";
}

// Of a tenant: what is known of them stays in memory.
constexpr std::int64_t kMostBatches = 10'000, kMostKnownBytes = 64ll << 20;
constexpr const char* kOutputEndings[] = {"", ".journal", ".journal.new", ".answers", ".errors"};
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

Batches::Batches(ServeContext& context, FileStore& files)
    : context_(context), files_(files), directory_(files.directory().parent_path() / "batches") {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) Throw(ErrorKind::kIo, "--state: {}: {}", directory_.string(), error.message());
  fs::permissions(directory_, fs::perms::owner_all, error);
  ReadFolder();
}

Batches::~Batches() { Stop(); }

// Outputs of batches that are over, or of none, go: nobody can fetch them.
void Batches::ReadFolder() {
  std::vector<std::pair<std::int64_t, std::string>> open;
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() != ".json") {
      others.push_back(entry.path());
      continue;
    }
    const std::string id = entry.path().stem().string();
    OrderedJson batch = OrderedJson::parse(ReadWholeFile(entry.path()), nullptr, false);
    if (!batch.is_object() || batch.value("id", "") != id) continue;
    batch["cost"] = MeasuredCost(batch);
    files_.Count(batch.value("tenant", ""), CostOf(batch), /*anyway=*/true);
    if (batch.value("status", "") == "cancelling") cancelled_.insert(id);
    if (!IsOver(batch)) open.emplace_back(batch.value("created_at", 0ll), id);
    batches_.emplace(id, std::move(batch));
  }
  std::ranges::sort(open);
  for (auto& [created, id] : open) {
    left_[id] = 0;
    waiting_.push_back(std::move(id));
  }
  for (const fs::path& path : others) {
    std::error_code none;
    const std::string name = path.filename().string();
    const auto left = left_.find(name.substr(0, name.find('.')));
    if (left == left_.end() || path.extension() == ".part") {
      fs::remove(path, none);
    } else if (const std::uintmax_t bytes = fs::file_size(path, none); !none) {
      left->second += CostOfFile(bytes);
    }
  }
  for (const auto& [id, bytes] : left_) {
    files_.Count(batches_.at(id).value("tenant", ""), bytes, /*anyway=*/true);
  }
}

void Batches::RemoveOutput(const std::string& id) const {
  for (const char* ending : kOutputEndings) {
    std::error_code ignored;
    fs::remove(OutputOf(id).string() + ending, ignored);
  }
}

void Batches::Start() {
  thread_ = std::thread([this] { Work(); });
}

void Batches::StopSoon() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  if (running_ != nullptr) running_->CancelCalls();
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
      RunNext(id);
    } catch (const ApiError& error) {
      Fail(id, error.what());
    } catch (const std::exception&) {  // messages about files contain paths of this machine
      Fail(id, "the batch's output on the server is not what it was");
    }
  }
}

void Batches::RunNext(const std::string& id) {
  std::string tenant;
  {
    const std::lock_guard lock(mutex_);
    tenant = batches_.at(id).value("tenant", "");
  }
  BatchRun run(context_, files_, *this, tenant, id);
  struct Running {
    Running(Batches& batches, BatchRun* run) : batches(batches) { Set(run); }
    ~Running() { Set(nullptr); }
    void Set(BatchRun* run) const {
      const std::lock_guard lock(batches.mutex_);
      batches.running_ = run;
    }
    Batches& batches;
  };
  const Running running(*this, &run);
  {
    const std::lock_guard lock(mutex_);
    const auto left = left_.extract(id);
    if (!left.empty()) files_.Count(tenant, -left.mapped(), /*anyway=*/true);  // the run has it now
  }
  run.Run();
}

void Batches::Fail(const std::string& id, const std::string& message) {
  RemoveOutput(id);
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

const OrderedJson& Batches::Known(const std::string& tenant, const std::string& id) const {
  const auto found = batches_.find(id);
  if (found == batches_.end() || found->second.value("tenant", "") != tenant) {
    throw ApiError(404, "there is no such batch", "batch_id", "batch_not_found");
  }
  return found->second;
}

// A batch may leave two files, of answers and of errors.
void Batches::CheckRoom(const std::string& tenant, std::int64_t cost) const {
  std::int64_t known = 0, known_bytes = cost, to_come = 2;
  for (const auto& [id, batch] : batches_) {
    if (batch.value("tenant", "") != tenant) continue;
    ++known;
    known_bytes += CostOf(batch);
    if (!IsOver(batch)) to_come += 2;
  }
  if (known >= kMostBatches || known_bytes > kMostKnownBytes) {
    throw ApiError(413, "you have too many batches; delete some", "", "storage_full");
  }
  files_.CheckCount(tenant, to_come);
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
  const std::int64_t cost = MeasuredCost(batch);
  batch["cost"] = cost;
  const std::lock_guard lock(mutex_);
  CheckRoom(request.tenant, cost);
  files_.Count(request.tenant, cost, /*anyway=*/false);
  try {
    Save(batch);
  } catch (const Error&) {
    files_.Count(request.tenant, -cost, /*anyway=*/true);
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
  // Lists are of ids; only what is on the page is copied, and counted before.
  std::vector<ListedPlace> places;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, batch] : batches_) {
    if (batch.value("tenant", "") == request.tenant) {
      places.push_back({batch.value("created_at", 0ll), id});
    }
  }
  const ListPage page = PageOf(request, std::move(places), {.usual = 20, .most = 100});
  std::string list = R"({"object":"list","data":[)";
  const char* separator = "";
  for (const std::string& id : page.ids) {
    const OrderedJson& batch = batches_.at(id);
    ChargeBudget(3 * static_cast<size_t>(CostOf(batch)));  // a copy, its text, the reply
    list += separator + DumpJson(PublicBatch(batch));
    separator = ",";
  }
  return list + page.Ending();
}

std::string Batches::Cancel(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  OrderedJson batch = Known(tenant, id);
  if (!IsOver(batch) && !cancelled_.contains(id)) {
    batch["status"] = "cancelling";
    batch["cancelling_at"] = SecondsNow();
    try {
      Save(batch);
    } catch (const Error&) {  // the disk is full: it ends all the same, if this server lives
      batches_[id] = batch;
    }
    cancelled_.insert(id);
    if (running_ != nullptr && running_->id() == id) running_->CancelCalls();
    changed_.notify_all();
  }
  return DumpJson(PublicBatch(std::move(batch)));
}

std::string Batches::Delete(const std::string& tenant, const std::string& id) {
  const std::lock_guard lock(mutex_);
  const OrderedJson& batch = Known(tenant, id);
  if (!IsOver(batch)) {
    throw ApiError(409, "the batch is not over; cancel it first", "batch_id", "batch_not_over");
  }
  const std::int64_t cost = CostOf(batch);
  batches_.erase(id);
  cancelled_.erase(id);
  std::error_code ignored;
  fs::remove(directory_ / (id + ".json"), ignored);
  files_.Count(tenant, -cost, /*anyway=*/true);
  return DumpJson(OrderedJson{{"id", id}, {"object", "batch"}, {"deleted", true}});
}

}  // namespace banyan
