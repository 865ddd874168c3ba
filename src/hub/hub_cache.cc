// Folders, links, references and locks of the hub's cache.
#include "hub/hub_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostReferenceBytes = 4096, kLeastCommitDigits = 7;
constexpr auto kLockTick = std::chrono::milliseconds(100);

bool Exists(const fs::path& path, bool (*is)(const fs::path&, std::error_code&)) {
  std::error_code ignored;
  return is(path, ignored);
}

bool IsCommit(const std::string& text) {
  return text.size() >= kLeastCommitDigits && text.size() <= 40 &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

std::string EnvironmentText(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path HuggingFaceHome() {
  if (const std::string home = EnvironmentText("HF_HOME"); !home.empty()) return home;
  if (const std::string xdg = EnvironmentText("XDG_CACHE_HOME"); !xdg.empty()) {
    return fs::path(xdg) / "huggingface";
  }
  return fs::path(EnvironmentText("HOME")) / ".cache" / "huggingface";
}

fs::path HuggingFaceCacheDirectory() {
  if (const std::string hub = EnvironmentText("HF_HUB_CACHE"); !hub.empty()) return hub;
  return HuggingFaceHome() / "hub";
}

void MakeFolders(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", folder.string(), error.message());
  }
}

HubCache::HubCache(const std::string& repository, fs::path root)
    : root_(std::move(root)), name_("models--" + repository) {
  if (const size_t slash = name_.find('/'); slash != std::string::npos) {
    name_.replace(slash, 1, "--");
  }
  folder_ = root_ / name_;
}

std::optional<fs::path> HubCache::FindSnapshot(const std::string& revision) const {
  const fs::path reference = folder_ / "refs" / revision;
  if (Exists(reference, fs::is_regular_file)) {
    std::string commit = ReadTextFile(reference, kMostReferenceBytes);
    while (!commit.empty() && (commit.back() == '\n' || commit.back() == ' ')) commit.pop_back();
    if (commit.empty() || commit.find('/') != std::string::npos || commit.front() == '.') {
      Throw(ErrorKind::kFormat, "{}: expected a commit hash", reference.string());
    }
    if (Exists(Snapshot(commit), fs::is_directory)) return Snapshot(commit);
    return std::nullopt;
  }
  std::vector<fs::path> snapshots;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_ / "snapshots", ignored)) {
    const std::string commit = entry.path().filename().string();
    if (revision == "main" || (IsCommit(revision) && commit.starts_with(revision))) {
      snapshots.push_back(entry.path());
    }
  }
  if (snapshots.size() == 1) return snapshots.front();
  return std::nullopt;
}

void HubCache::Link(const std::string& commit, const HubFile& file) const {
  const fs::path link = Snapshot(commit) / file.path;
  MakeFolders(link.parent_path());
  std::string up = "../../";  // of snapshots/COMMIT/
  up.reserve(up.size() + 3 * file.path.size());
  for (const char c : file.path) up += c == '/' ? "../" : "";
  const fs::path target = up + "blobs/" + file.etag;
  std::error_code error;
  if (fs::read_symlink(link, error) == target && !error) return;
  const fs::path fresh = link.string() + fmt::format(".{}.banyan", ::getpid());
  fs::remove(fresh, error);
  fs::create_symlink(target, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) {
    Throw(ErrorKind::kIo, "{}: cannot link the file: {}", link.string(), error.message());
  }
}

void HubCache::WriteReference(const std::string& revision, const std::string& commit) const {
  const fs::path reference = folder_ / "refs" / revision;
  MakeFolders(reference.parent_path());
  WriteFileAtomically(reference.string(),
                      reference.string() + fmt::format(".{}.banyan", ::getpid()), 0644, commit);
}

std::int64_t HubCache::RemoveFiles(const fs::path& snapshot,
                                   const std::vector<std::string>& paths) const {
  std::set<std::string> gone;
  std::int64_t bytes = 0;
  std::error_code error;
  for (const std::string& path : paths) {
    const fs::path link = snapshot / path;
    const fs::path blob = fs::read_symlink(link, error).filename();
    const auto size = fs::file_size(link, error);  // where links are not possible, files are copies
    if (blob.empty() && !error) bytes += static_cast<std::int64_t>(size);
    if (!blob.empty()) gone.insert(blob.string());
    if (!fs::remove(link, error)) {
      Throw(ErrorKind::kIo, "{}: cannot be removed: {}", link.string(), error.message());
    }
  }
  fs::recursive_directory_iterator it(folder_ / "snapshots", error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code none;
    if (it->is_symlink(none)) gone.erase(fs::read_symlink(it->path(), none).filename().string());
  }
  for (const std::string& blob : gone) {
    const auto size = fs::file_size(Blob(blob), error);
    if (!error && fs::remove(Blob(blob), error)) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::int64_t HubCache::RemoveAll() const {
  const std::int64_t bytes = BytesBelow(folder_);
  std::error_code error;
  fs::remove_all(folder_, error);
  if (error) Throw(ErrorKind::kIo, "{}: cannot be removed: {}", folder_.string(), error.message());
  fs::remove_all(root_ / ".locks" / name_, error);
  return bytes;
}

std::int64_t BytesBelow(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator it(folder, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    std::error_code none;
    if (it->is_symlink(none) || !it->is_regular_file(none)) continue;
    bytes += static_cast<std::int64_t>(it->file_size(none));
  }
  return bytes;
}

BlobLock::BlobLock(const HubCache& cache, const std::string& etag,
                   const std::function<void()>& waiting) {
  const fs::path folder = cache.root_ / ".locks" / cache.name_;
  MakeFolders(folder);
  const std::string path = (folder / (etag + ".lock")).string();
  fd_ = OpenFile(path, O_RDWR | O_CREAT, 0644);
  if (fd_ < 0) Throw(ErrorKind::kIo, "{}: cannot be opened: {}", path, std::strerror(errno));
  while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    // A file system without locks: two downloads may do the same work, each in a file of its own.
    if (errno != EWOULDBLOCK && errno != EINTR) break;
    try {
      waiting();
    } catch (...) {
      ::close(fd_);
      throw;
    }
    std::this_thread::sleep_for(kLockTick);
  }
}

BlobLock::~BlobLock() { ::close(fd_); }

std::vector<std::string> CachedRepositories() {
  constexpr std::string_view kBefore = "models--";
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(HuggingFaceCacheDirectory(), ignored)) {
    std::string name = entry.path().filename().string();
    if (!name.starts_with(kBefore) || !Exists(entry.path(), fs::is_directory)) continue;
    name.erase(0, kBefore.size());
    if (const size_t dashes = name.find("--"); dashes != std::string::npos) {
      name.replace(dashes, 2, "/");
    }
    names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace banyan
