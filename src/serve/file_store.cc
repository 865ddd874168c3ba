#include "serve/file_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "base/json_row.h"
#include "serve/api_error.h"
#include "serve/context.h"
#include "serve/multipart.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = std::uintmax_t{4} << 30;  // of all files together
constexpr size_t kMostListed = 10'000;

void SyncPath(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

OrderedJson PublicFile(OrderedJson known) {
  known.erase("tenant");
  return known;
}

}  // namespace

bool IsPlainId(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

void WriteWholeFile(const fs::path& path, std::string_view bytes) {
  fs::path part = path;
  part += ".part";
  {
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) Throw(ErrorKind::kIo, "{}: cannot write the file", part.string());
  }
  SyncPath(part);
  std::error_code error;
  fs::rename(part, path, error);
  if (error) Throw(ErrorKind::kIo, "{}: {}", path.string(), error.message());
  SyncPath(path.parent_path());
}

std::string ReadWholeFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) Throw(ErrorKind::kIo, "{}: cannot read the file", path.string());
  return bytes;
}

FileStore::FileStore(const fs::path& directory) : directory_(directory / "files") {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error || ::access(directory_.c_str(), W_OK) != 0) {
    Throw(ErrorKind::kIo, "--state: {}: cannot write into the folder", directory.string());
  }
  fs::permissions(directory_, fs::perms::owner_all, error);
}

std::string FileStore::Keep(const std::string& tenant, const std::string& name,
                            const std::string& purpose, std::string_view bytes) {
  std::uintmax_t total = bytes.size();
  for (const auto& entry : fs::directory_iterator(directory_)) total += entry.file_size();
  if (total > kMostBytes) throw ApiError(413, "the server's folder for files is full");
  const std::string id = NewId("file-");
  OrderedJson known = {{"id", id},
                       {"object", "file"},
                       {"bytes", bytes.size()},
                       {"created_at", SecondsNow()},
                       {"filename", name},
                       {"purpose", purpose},
                       {"status", "processed"},
                       {"tenant", tenant}};
  WriteWholeFile(directory_ / id, bytes);
  WriteWholeFile(directory_ / (id + ".json"), DumpJson(known));
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
  return Describe(request.tenant,
                  Keep(request.tenant, file->filename.substr(0, 255), purpose, file->bytes));
}

OrderedJson FileStore::Known(const std::string& tenant, const std::string& id) const {
  const fs::path path = directory_ / (id + ".json");
  std::error_code error;
  if (IsPlainId(id) && fs::exists(path, error)) {
    OrderedJson known = OrderedJson::parse(ReadWholeFile(path), nullptr, false);
    if (known.is_object() && known.value("tenant", "") == tenant) return known;
  }
  throw ApiError(404, "there is no such file", "file_id", "file_not_found");
}

std::string FileStore::Describe(const std::string& tenant, const std::string& id) const {
  return DumpJson(PublicFile(Known(tenant, id)));
}

fs::path FileStore::PathOf(const std::string& tenant, const std::string& id) const {
  Known(tenant, id);
  return directory_ / id;
}

std::string FileStore::Content(const std::string& tenant, const std::string& id) const {
  return ReadWholeFile(PathOf(tenant, id));
}

std::string FileStore::List(const HttpRequest& request) const {
  const std::string purpose = request.query_value("purpose");
  std::vector<OrderedJson> found;
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() != ".json" || found.size() == kMostListed) continue;
    try {
      OrderedJson known = Known(request.tenant, entry.path().stem().string());
      if (purpose.empty() || known.value("purpose", "") == purpose) {
        found.push_back(PublicFile(std::move(known)));
      }
    } catch (const ApiError&) {  // another tenant's
    }
  }
  std::ranges::sort(found, std::ranges::greater(),
                    [](const OrderedJson& file) { return file.value("created_at", 0ll); });
  OrderedJson list = {{"object", "list"}, {"data", found}, {"has_more", false}};
  return DumpJson(list);
}

std::string FileStore::Delete(const std::string& tenant, const std::string& id) {
  const fs::path path = PathOf(tenant, id);
  std::error_code ignored;
  fs::remove(directory_ / (id + ".json"), ignored);
  fs::remove(path, ignored);
  return DumpJson(OrderedJson{{"id", id}, {"object", "file"}, {"deleted", true}});
}

}  // namespace banyan
