// Files of clients on the disk, written whole or not at all.
#include "serve/batches/file_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "serve/batches/multipart.h"
#include "serve/request/api_error.h"
#include "serve/request/context.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

OrderedJson PublicFile(OrderedJson known) {
  known.erase("tenant");
  return known;
}

OrderedJson JsonOf(const std::string& id, const FileStore::Entry& entry, std::uintmax_t bytes) {
  return {{"id", id},
          {"object", "file"},
          {"bytes", bytes},
          {"created_at", SecondsNow()},
          {"filename", entry.name},
          {"purpose", entry.purpose},
          {"status", "processed"},
          {"tenant", entry.tenant}};
}

}  // namespace

FileStore::FileStore(const fs::path& directory, std::int64_t most_bytes, std::int64_t most_files)
    : most_bytes_(most_bytes), most_files_(most_files), directory_(directory / "files") {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error || ::access(directory_.c_str(), W_OK) != 0) {
    Throw(ErrorKind::kIo, "--state: {}: cannot write into the folder", directory.string());
  }
  fs::permissions(directory_, fs::perms::owner_all, error);
  const std::string path = (directory / "lock").string();
  lock_ = OpenFile(path, O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    if (lock_ >= 0) ::close(lock_);
    Throw(ErrorKind::kIo, "--state: {}: another server works on this folder", directory.string());
  }
  ReadFolder();
}

FileStore::~FileStore() {
  if (lock_ >= 0) ::close(lock_);
}

void FileStore::ReadFolder() {
  std::vector<fs::path> bodies;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    const fs::path& path = entry.path();
    std::error_code none;
    if (path.extension() == ".part") {
      fs::remove(path, none);
    } else if (path.extension() == ".json") {
      const std::string id = path.stem().string();
      OrderedJson json = OrderedJson::parse(ReadWholeFile(path), nullptr, false);
      const std::uintmax_t bytes = fs::file_size(directory_ / id, none);
      if (none || !json.is_object() || json.value("id", "") != id) continue;
      Enter(id, std::move(json), CostOfFile(bytes) + CostOfFile(0));
    } else {
      bodies.push_back(path);
    }
  }
  for (const fs::path& body : bodies) {  // left by uploads that were cut off
    std::error_code none;
    if (!files_.contains(body.filename().string())) fs::remove(body, none);
  }
}

void FileStore::Enter(const std::string& id, OrderedJson json, std::int64_t cost) {
  const std::lock_guard lock(mutex_);
  used_[json.value("tenant", "")] += cost;
  files_[id] = {std::move(json), cost};
}

void FileStore::Count(const std::string& tenant, std::int64_t bytes, bool anyway) {
  const std::lock_guard lock(mutex_);
  CountLocked(tenant, bytes, anyway);
}

void FileStore::CountLocked(const std::string& tenant, std::int64_t bytes, bool anyway) {
  std::int64_t& used = used_[tenant];
  if (!anyway && bytes > 0 && used + bytes > most_bytes_) {
    throw ApiError(413, "your files and batches take all the room that you have; delete some", "",
                   "storage_full");
  }
  used += bytes;
}

std::int64_t FileStore::used(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(tenant);
  return found == used_.end() ? 0 : found->second;
}

std::int64_t FileStore::FilesOf(const std::string& tenant) const {
  const auto written = being_written_.find(tenant);
  return (written == being_written_.end() ? 0 : written->second) +
         std::ranges::count_if(files_, [&](const auto& known) {
           return known.second.json.value("tenant", "") == tenant;
         });
}

void FileStore::CheckCount(const std::string& tenant, std::int64_t more) const {
  const std::lock_guard lock(mutex_);
  CheckCountLocked(tenant, more);
}

void FileStore::CheckCountLocked(const std::string& tenant, std::int64_t more) const {
  if (FilesOf(tenant) + more > most_files_) {
    throw ApiError(413, "you have too many files; delete some", "", "storage_full");
  }
}

// The room is taken before anything is written, so that two uploads cannot take the same.
std::string FileStore::Keep(const Entry& entry, std::string_view bytes) {
  const std::string id = NewId("file-");
  OrderedJson json = JsonOf(id, entry, bytes.size());
  const std::int64_t cost = CostOfFile(bytes.size()) + CostOfFile(0);
  const auto give_back = [&] {
    std::error_code none;
    for (const char* ending : {".json", ""}) fs::remove(directory_ / (id + ending), none);
    Count(entry.tenant, -cost, /*anyway=*/true);
    const std::lock_guard lock(mutex_);
    --being_written_[entry.tenant];
  };
  {
    const std::lock_guard lock(mutex_);
    CheckCountLocked(entry.tenant, 1);
    CountLocked(entry.tenant, cost, /*anyway=*/false);
    ++being_written_[entry.tenant];
  }
  try {
    WriteWholeFile(directory_ / id, bytes);
    WriteWholeFile(directory_ / (id + ".json"), DumpJson(json));
  } catch (const Error&) {
    give_back();
    throw ApiError(503, "the server cannot write to its disk now", "", "disk_full");
  } catch (...) {
    give_back();
    throw;
  }
  const std::lock_guard lock(mutex_);
  --being_written_[entry.tenant];
  files_[id] = {std::move(json), cost};
  return id;
}

std::string FileStore::Adopt(const Entry& entry, const fs::path& file) {
  const std::string id = NewId("file-");
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  if (error) Throw(ErrorKind::kIo, "{}: {}", file.string(), error.message());
  OrderedJson json = JsonOf(id, entry, bytes);
  WriteWholeFile(directory_ / (id + ".json"), DumpJson(json));
  if (!ReplaceFile(file.string(), (directory_ / id).string())) {
    const int reason = errno;
    std::error_code none;
    fs::remove(directory_ / (id + ".json"), none);
    Throw(ErrorKind::kIo, "{}: {}", file.string(), std::strerror(reason));
  }
  Enter(id, std::move(json), CostOfFile(bytes) + CostOfFile(0));
  return id;
}

std::string FileStore::Upload(const HttpRequest& request) {
  std::string purpose, name;
  const FormPart* file = nullptr;
  const std::vector<FormPart> parts = ReadForm(request.header("content-type"), request.body);
  for (const FormPart& part : parts) {
    if (part.name == "purpose") {
      purpose = std::string(part.bytes);
    } else if (part.name == "file") {
      file = &part;
    } else {
      throw ApiError(400, "'" + part.name + "': this server has no such parameter", part.name,
                     "unknown_parameter");
    }
  }
  if (file == nullptr) throw ApiError(400, "'file' is missing", "file");
  if (purpose != "batch") {
    throw ApiError(400, "'purpose': this server keeps files for batches alone (batch)", "purpose");
  }
  const Entry entry{request.tenant, file->filename.substr(0, 255), purpose};
  return Describe(request.tenant, Keep(entry, file->bytes));
}

FileStore::Known FileStore::Find(const std::string& tenant, const std::string& id) const {
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.json.value("tenant", "") != tenant) {
    throw ApiError(404, "there is no such file", "file_id", "file_not_found");
  }
  return found->second;
}

std::string FileStore::Describe(const std::string& tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  return DumpJson(PublicFile(Find(tenant, id).json));
}

fs::path FileStore::PathOf(const std::string& tenant, const std::string& id) const {
  const std::lock_guard lock(mutex_);
  Find(tenant, id);
  return directory_ / id;
}

void FileStore::Send(const std::string& tenant, const std::string& id, HttpReply& reply) const {
  std::ifstream file(PathOf(tenant, id), std::ios::binary);
  if (!file) throw ApiError(404, "there is no such file", "file_id", "file_not_found");
  HttpResponse head;
  head.content_type = "application/octet-stream";
  reply.Begin(head);
  std::vector<char> piece(1 << 16);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())) || file.gcount() > 0) {
    if (!reply.Write({piece.data(), static_cast<size_t>(file.gcount())})) return;
  }
  if (file.bad()) Throw(ErrorKind::kIo, "{}: cannot read the file", id);
  reply.End();
}

std::string FileStore::List(const HttpRequest& request) const {
  const std::string purpose = request.query_value("purpose");
  std::vector<ListedPlace> places;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, known] : files_) {
    if (known.json.value("tenant", "") != request.tenant) continue;
    if (purpose.empty() || known.json.value("purpose", "") == purpose) {
      places.push_back({known.json.value("created_at", 0ll), id});
    }
  }
  const ListPage page = PageOf(request, std::move(places), {.usual = 10'000, .most = 10'000});
  std::string list = R"({"object":"list","data":[)";
  const char* separator = "";
  for (const std::string& id : page.ids) {
    const std::string text = DumpJson(PublicFile(files_.at(id).json));
    ChargeBudget(2 * text.size());  // here and in the reply
    list += separator + text;
    separator = ",";
  }
  return list + page.Ending();
}

ListPage PageOf(const HttpRequest& request, std::vector<ListedPlace> all,
                const ListLimits& limits) {
  std::ranges::sort(all, std::ranges::greater());
  auto first = all.begin();
  if (const std::string after = request.query_value("after"); !after.empty()) {
    first = std::ranges::find(all, after, &ListedPlace::id);
    if (first != all.end()) ++first;
  }
  const std::string wanted = request.query_value("limit");
  const int limit =
      wanted.empty() ? limits.usual : std::clamp(std::atoi(wanted.c_str()), 1, limits.most);
  ListPage page;
  for (; first != all.end() && page.ids.size() < static_cast<size_t>(limit); ++first) {
    page.ids.push_back(std::move(first->id));
  }
  page.more = first != all.end();
  return page;
}

std::string ListPage::Ending() const {
  const auto id = [&](const std::string* one) { return one ? OrderedJson(*one) : OrderedJson(); };
  return fmt::format(R"(],"first_id":{},"last_id":{},"has_more":{}}})",
                     id(ids.empty() ? nullptr : &ids.front()).dump(),
                     id(ids.empty() ? nullptr : &ids.back()).dump(), more);
}

std::string FileStore::Delete(const std::string& tenant, const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    const Known known = Find(tenant, id);
    files_.erase(id);
    used_[tenant] -= known.cost;
  }
  std::error_code ignored;
  fs::remove(directory_ / (id + ".json"), ignored);
  fs::remove(directory_ / id, ignored);
  return DumpJson(OrderedJson{{"id", id}, {"object", "file"}, {"deleted", true}});
}

std::int64_t CostOfFile(std::uintmax_t bytes) {
  constexpr std::int64_t kEach = 4096;  // a block of the disk at least, and its entries
  return static_cast<std::int64_t>(bytes) + kEach;
}

void WriteWholeFile(const fs::path& path, std::string_view bytes) {
  WriteFileAtomically(path.string(), path.string() + ".part", 0600, bytes);
}

std::string ReadWholeFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) Throw(ErrorKind::kIo, "{}: cannot read the file", path.string());
  return bytes;
}

}  // namespace banyan
