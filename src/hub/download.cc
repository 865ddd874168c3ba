// Ranges of a file, fetched by several threads into one partial file, which remembers what it has.
#include "hub/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kChunkBytes = std::int64_t{8} << 20;
constexpr auto kTick = std::chrono::milliseconds(200);

// Thrown for a server that sends whole files alone.
struct NoRanges {};

fs::path PartialPath(const HubCache& cache, const HubFile& file) {
  return cache.Blob(file.etag).string() + ".banyan-incomplete";
}

std::int64_t ChunksOf(const HubFile& file) { return (file.bytes + kChunkBytes - 1) / kChunkBytes; }

// The file's bytes at their places and behind them one byte for each chunk: 1 when it is there.
class PartialFile {
 public:
  PartialFile(const HubCache& cache, const HubFile& file)
      : path_(PartialPath(cache, file).string()), size_(file.bytes) {
    fd_ = OpenFile(path_, O_RDWR | O_CREAT | O_NOFOLLOW, 0644);
    if (fd_ < 0) Fail("cannot be opened");
    const std::int64_t whole = size_ + ChunksOf(file);
    struct stat status {};
    const bool known = ::fstat(fd_, &status) == 0;
    if ((!known || status.st_size != whole) &&
        (::ftruncate(fd_, 0) != 0 || ::ftruncate(fd_, whole) != 0)) {
      Fail("cannot be written");
    }
    chunks_.resize(static_cast<size_t>(ChunksOf(file)));
    if (!chunks_.empty() && ::pread(fd_, chunks_.data(), chunks_.size(), size_) < 0) {
      Fail("cannot be read");
    }
  }
  ~PartialFile() { ::close(fd_); }
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  const std::string& path() const { return path_; }
  bool Has(std::int64_t chunk) const { return chunks_[static_cast<size_t>(chunk)] == 1; }
  std::int64_t Bytes(std::int64_t chunk) const {
    return std::min(kChunkBytes, size_ - chunk * kChunkBytes);
  }
  std::int64_t BytesThere() const {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(chunks_.size()); ++i) {
      if (Has(i)) sum += Bytes(i);
    }
    return sum;
  }
  // From any thread, each its own bytes.
  void Write(std::int64_t position, std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t wrote = ::pwrite(fd_, bytes.data(), bytes.size(), position);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) Fail("cannot be written");
      bytes.remove_prefix(static_cast<size_t>(wrote));
      position += wrote;
    }
  }
  // From any thread, each its own chunk.
  void MarkThere(std::int64_t chunk) const {
    const char there = 1;
    Write(size_ + chunk, {&there, 1});
  }
  void CutMarks() const {
    if (::ftruncate(fd_, size_) != 0) Fail("cannot be written");
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    Throw(ErrorKind::kIo, "{}: {}: {}", path_, what, std::strerror(errno));
  }

  std::string path_;
  std::int64_t size_ = 0;
  int fd_ = -1;
  std::vector<char> chunks_;
};

// The threads' common state.
struct Work {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::int64_t> missing;  // chunks, the next one last
  int running = 0;
  std::exception_ptr failure;  // the first
  std::atomic<bool> cancelled = false;
  std::atomic<std::int64_t> received = 0;
};

void CheckHead(const TransferReply& reply, const HubFile& file, const DownloadSource& source,
               const std::optional<TransferRange>& range, std::int64_t at) {
  const auto changed = [&](const std::string& what) {
    Throw(ErrorKind::kFormat,
          "{}: {}: {}: it is not the file that was listed; run it again, and 'banyan model get "
          "{}' if that does not help",
          source.repository, file.path, what, source.repository);
  };
  if (!reply.linked_etag.empty() && reply.linked_etag != file.etag) {
    changed(fmt::format("expected ETag {}, found {}", file.etag, reply.linked_etag.substr(0, 80)));
  }
  if (reply.status == 206) {
    if (reply.total && *reply.total != file.bytes) {
      changed(fmt::format("expected {} bytes, found {}", file.bytes, *reply.total));
    }
    if (!range || (reply.range_begin && *reply.range_begin != at)) {
      Throw(ErrorKind::kIo, "{}: asked for byte {}, the server sends others", reply.url, at);
    }
    return;
  }
  if (reply.length && *reply.length != file.bytes) {
    changed(fmt::format("expected {} bytes, found {}", file.bytes, *reply.length));
  }
  if (range && (at != 0 || range->end != file.bytes)) throw NoRanges();
}

// Fetches one range, or the whole file in one piece, which begins anew after a break.
void FetchRange(HttpClient& client, const HubFile& file, const DownloadSource& source,
                std::optional<TransferRange> range, const PartialFile& partial, Work& work,
                bool has_token) {
  const std::int64_t begin = range ? range->begin : 0, end = range ? range->end : file.bytes;
  std::int64_t at = begin;
  TransferRequest request;
  request.url = source.url;
  request.range = range;
  request.head = [&](const TransferReply& reply) { CheckHead(reply, file, source, range, at); };
  request.body = [&](std::string_view bytes) {
    if (static_cast<std::int64_t>(bytes.size()) > end - at) {
      Throw(ErrorKind::kFormat, "{}: {}: the server sends more than the {} bytes that were listed",
            source.repository, file.path, file.bytes);
    }
    partial.Write(at, bytes);
    at += static_cast<std::int64_t>(bytes.size());
    work.received += static_cast<std::int64_t>(bytes.size());
  };
  request.again = [&] {
    work.received -= at - begin;
    at = begin;
  };
  for (int shorter = 0; at < end; ++shorter) {
    const TransferReply reply = client.Send(request);
    if (reply.status != 200 && reply.status != 206) {
      ThrowForStatus(reply, source.repository, file.path, has_token);
    }
    if (at < end && (shorter == 3 || !range)) {
      Throw(ErrorKind::kIo, "{}: {}: the server sends {} bytes where {} were listed",
            source.repository, file.path, at - begin, end - begin);
    }
    if (range) request.range = range = TransferRange{at, end};
  }
}

void FetchChunks(const HubFile& file, const DownloadSource& source, const DownloadOptions& options,
                 const PartialFile& partial, Work& work) {
  try {
    TransferSettings settings = options.http;
    settings.cancelled = &work.cancelled;
    HttpClient client(settings);
    for (;;) {
      std::int64_t chunk = 0;
      {
        const std::lock_guard lock(work.mutex);
        if (work.missing.empty() || work.failure) break;
        chunk = work.missing.back();
        work.missing.pop_back();
      }
      const std::int64_t begin = chunk * kChunkBytes;
      FetchRange(client, file, source, TransferRange{begin, begin + partial.Bytes(chunk)}, partial,
                 work, !options.http.token.empty());
      partial.MarkThere(chunk);
    }
  } catch (...) {
    const std::lock_guard lock(work.mutex);
    if (!work.failure) work.failure = std::current_exception();
    work.cancelled = true;
  }
  const std::lock_guard lock(work.mutex);
  --work.running;
  work.changed.notify_all();
}

// Runs threads until nothing is missing, and tells the progress meanwhile.
void FetchMissing(const HubFile& file, const DownloadSource& source, const DownloadOptions& options,
                  const PartialFile& partial) {
  Work work;
  for (std::int64_t chunk = ChunksOf(file); chunk-- > 0;) {
    if (!partial.Has(chunk)) work.missing.push_back(chunk);
  }
  if (work.missing.empty()) return;
  const std::int64_t there = partial.BytesThere();
  work.running = static_cast<int>(
      std::min<size_t>(work.missing.size(), static_cast<size_t>(options.connections)));
  std::vector<std::thread> threads;
  for (int i = work.running; i > 0; --i) {
    threads.emplace_back([&] { FetchChunks(file, source, options, partial, work); });
  }
  std::exception_ptr stopped;
  {
    std::unique_lock lock(work.mutex);
    while (work.running > 0) {
      work.changed.wait_for(lock, kTick);
      if (stopped || !options.progress) continue;
      lock.unlock();
      try {
        options.progress(there + work.received);
      } catch (...) {
        stopped = std::current_exception();
        work.cancelled = true;
      }
      lock.lock();
    }
  }
  for (std::thread& thread : threads) thread.join();
  if (stopped) std::rethrow_exception(stopped);
  if (work.failure) std::rethrow_exception(work.failure);
}

// For a server without ranges.
void FetchWhole(const HubFile& file, const DownloadSource& source, const DownloadOptions& options,
                const PartialFile& partial) {
  Work work;
  TransferSettings settings = options.http;
  settings.cancelled = &work.cancelled;
  HttpClient client(settings);
  FetchRange(client, file, source, std::nullopt, partial, work, !options.http.token.empty());
  if (options.progress) options.progress(file.bytes);
}

void CheckHash(const HubFile& file, const DownloadSource& source, const std::string& path) {
  const MappedFile bytes(path);
  const std::string found =
      file.has_sha256 ? ToHex(Sha256().Add(bytes.bytes()).Finish()) : GitBlobHash(bytes.bytes());
  if (found == file.etag || found.empty()) return;
  ::unlink(path.c_str());
  Throw(ErrorKind::kFormat,
        "{}: {}: expected {} {}, found {}: the bytes were thrown away; run it again",
        source.repository, file.path, file.has_sha256 ? "SHA-256" : "git's hash", file.etag, found);
}

bool IsThere(const HubCache& cache, const HubFile& file) {
  std::error_code none;
  const auto bytes = fs::file_size(cache.Blob(file.etag), none);
  return !none && bytes == static_cast<std::uintmax_t>(file.bytes);
}

}  // namespace

std::int64_t BytesOnDisk(const HubCache& cache, const HubFile& file) {
  if (IsThere(cache, file)) return file.bytes;
  struct stat status {};
  if (::stat(PartialPath(cache, file).c_str(), &status) != 0) return 0;
  return std::min<std::int64_t>(file.bytes, std::int64_t{status.st_blocks} * 512);
}

void DownloadBlob(const HubCache& cache, const HubFile& file, const DownloadSource& source,
                  const DownloadOptions& options) {
  if (IsThere(cache, file)) return;
  MakeFolders(cache.Blob(file.etag).parent_path());
  bool said = false;
  const BlobLock lock(cache, file.etag, [&] {
    if (!std::exchange(said, true) && options.say) {
      options.say(fmt::format("{}: another program downloads it; waiting", file.path));
    }
    if (options.progress) options.progress(BytesOnDisk(cache, file));
  });
  if (IsThere(cache, file)) return;
  const std::string blob = cache.Blob(file.etag).string();
  {
    const PartialFile partial(cache, file);
    try {
      FetchMissing(file, source, options, partial);
    } catch (const NoRanges&) {
      FetchWhole(file, source, options, partial);
    }
    partial.CutMarks();
  }
  const std::string path = PartialPath(cache, file).string();
  CheckHash(file, source, path);
  if (!ReplaceFile(path, blob)) {
    Throw(ErrorKind::kIo, "{}: cannot be kept: {}", blob, std::strerror(errno));
  }
}

void ThrowForStatus(const TransferReply& reply, const std::string& repository,
                    const std::string& what, bool has_token) {
  const std::string name = what.empty() ? repository : repository + ": " + what;
  const bool gated = reply.error_code == "GatedRepo";
  const std::string page = OriginOf(reply.url) + "/" + repository;
  switch (reply.status) {
    case 401:
    case 403:
      if (gated) {
        Throw(ErrorKind::kNotFound, "{}: its makers ask for agreement first: accept at {}{}", name,
              page, has_token ? " with the account of HF_TOKEN" : ", then set HF_TOKEN");
      }
      if (has_token) {
        Throw(ErrorKind::kNotFound,
              "{}: HF_TOKEN gives no access: is the name right, and the "
              "token of an account that may read it?",
              name);
      }
      Throw(ErrorKind::kNotFound,
            "{}: there is no such public repository: check the name; a private or gated one needs "
            "HF_TOKEN",
            name);
    case 404:
    case 410:
      if (reply.error_code == "RevisionNotFound") {
        Throw(ErrorKind::kNotFound, "{}: the repository has no such revision", name);
      }
      Throw(ErrorKind::kNotFound, "{}: the hub has no such {}: check the name", name,
            what.empty() ? "repository" : "file");
    case 416:
      Throw(ErrorKind::kFormat, "{}: the file is shorter than was listed; run it again", name);
    case 429:
      if (reply.retry_after) {
        Throw(ErrorKind::kIo, "{}: the hub asks to wait {} s before the next request{}", name,
              *reply.retry_after, has_token ? "" : "; with HF_TOKEN it allows more");
      }
      Throw(ErrorKind::kIo, "{}: the hub refuses more requests for now; try again later{}", name,
            has_token ? "" : ", or with HF_TOKEN");
    default:
      Throw(ErrorKind::kIo, "{}: {} answers {}{}", name, OriginOf(reply.url), reply.status,
            reply.status >= 500 ? "; try again later" : "");
  }
}

}  // namespace banyan
