// Looking blocks up, and the thread that writes.
#include "store/store_parts.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "base/error.h"
#include "store/segment_file.h"

namespace banyan {
namespace {

// Runs that wait to be written, together; whoever saves waits beyond it.
constexpr std::int64_t kMostWaitingBytes = std::int64_t{512} << 20;

// The name of a file of this folder as it must be; of any other text something else.
std::string FileOfSegmentNamed(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  return fmt::format("segments/{}/{}", name.substr(0, 2), name);
}

}  // namespace

std::int64_t NowMilliseconds() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string FileOfSegment(const Digest& first_block, KvType type) {
  constexpr const char* kEndings[] = {"f32", "f16", "bf16", "q8"};
  const std::string name = ToHex(first_block);
  return fmt::format("segments/{}/{}.{}.kv", name.substr(0, 2), name,
                     kEndings[static_cast<int>(type)]);
}

std::string IdOfFile(const std::string& file) {
  constexpr size_t kShown = 16;
  return std::filesystem::path(file).filename().string().substr(0, kShown);
}

KvStore::Parts::Parts(const KvStoreOptions& wanted)
    : options(wanted), folder(wanted.directory), opened(NowMilliseconds()) {
  if (options.bits != 0 && options.bits != 8) {
    Throw(ErrorKind::kUsage, "--kv-bits: expected 8, found {}", options.bits);
  }
  try {
    LockForWriting();
    OpenIndex();
    if (writing) thread_ = std::thread([this] { WriteRuns(); });
  } catch (...) {
    if (lock_fd >= 0) ::close(lock_fd);
    throw;
  }
}

KvStore::Parts::~Parts() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (!used_.empty() && reading) {
    try {  // only who is asked for least goes first: nothing is lost when nobody may write
      reading->Touch({used_.begin(), used_.end()}, NowMilliseconds());
    } catch (const Error&) {
    }
  }
  writing.reset();
  reading.reset();
  if (lock_fd >= 0) ::close(lock_fd);
}

std::optional<BlockPlace> KvStore::Parts::Find(const Digest& name, KvType type) {
  try {
    std::optional<BlockPlace> place = reading->Find(name, type);
    if (!place || place->file != FileOfSegmentNamed(place->file)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    return damaged_.contains(place->segment) ? std::nullopt : place;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void KvStore::Parts::NoteUse(std::int64_t segment) {
  const std::lock_guard lock(mutex_);
  used_.insert(segment);
}

void KvStore::Parts::NoteDamage(std::int64_t segment) {
  {
    const std::lock_guard lock(mutex_);
    if (!damaged_.insert(segment).second || !writing) return;
  }
  try {  // whoever computes it anew can keep it then
    for (const IndexedSegment& listed : writing->List()) {
      if (listed.number == segment) Discard(listed);
    }
  } catch (const Error&) {
  }
}

std::int64_t KvStore::Parts::damaged() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(damaged_.size());
}

bool KvStore::Parts::Has(const Digest& name, KvType type) {
  {
    const std::lock_guard lock(mutex_);
    if (on_their_way_.contains({name, type})) return true;
  }
  return Find(name, type).has_value();
}

void KvStore::Parts::Save(SavedRun run) {
  if (!saving()) return;
  const KvType type = StoredType(run.header.type);
  const auto bytes = static_cast<std::int64_t>(run.bytes.size());
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return failed || waiting_bytes_ == 0 || waiting_bytes_ + bytes <= kMostWaitingBytes;
  });
  if (failed) return;
  for (const Digest& name : BlockNames(run.header.place, run.header.tokens)) {
    on_their_way_.emplace(name, type);
  }
  waiting_bytes_ += bytes;
  runs_.push_back(std::move(run));
  changed_.notify_all();
}

KvStore::Parts::SavedTotals KvStore::Parts::saved() const {
  const std::lock_guard lock(mutex_);
  return saved_;
}

void KvStore::Parts::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return (runs_.empty() && !writes_) || failed || !writing; });
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
}

void KvStore::Parts::WriteRuns() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !runs_.empty(); });
    if (runs_.empty()) return;
    SavedRun run = std::move(runs_.front());
    runs_.pop_front();
    writes_ = true;
    const auto bytes = static_cast<std::int64_t>(run.bytes.size());
    lock.unlock();
    std::exception_ptr problem;
    try {
      WriteOne(run);
    } catch (...) {
      problem = std::current_exception();
    }
    lock.lock();
    writes_ = false;
    waiting_bytes_ -= bytes;
    if (problem) {  // what waits would fare no better
      problem_ = problem;
      failed = true;
      runs_.clear();
      waiting_bytes_ = 0;
      on_their_way_.clear();
    }
    changed_.notify_all();
  }
}

void KvStore::Parts::WriteOne(SavedRun& run) {
  SegmentHeader& header = run.header;
  RoundingLoss loss;
  const KvType own = header.type, stored = StoredType(own);
  if (stored != own) {
    const PageForm from = FormOf(header.shape, own), to = FormOf(header.shape, stored);
    std::vector<std::byte> rounded(run.bytes.size() / static_cast<size_t>(from.head_bytes) *
                                   static_cast<size_t>(to.head_bytes));
    loss = ConvertPages(from, run.bytes, to, rounded);
    run.bytes = std::move(rounded);
    header.type = stored;
    header.exact = false;
    header.key_loss = static_cast<float>(loss.OfKeys());
    header.value_loss = static_cast<float>(loss.OfValues());
  }
  const std::vector<Digest> names = BlockNames(header.place, header.tokens);
  const std::string file = FileOfSegment(names.front(), stored);
  MakeRoom(static_cast<std::int64_t>(run.bytes.size()));
  const std::filesystem::path path = PathOf(file);
  MakePrivateFolder(path.parent_path().string());
  WriteSegmentFile(path.string(), header, run.bytes);
  writing->Insert(header, file, NowMilliseconds());
  const std::lock_guard lock(mutex_);
  for (const Digest& name : names) on_their_way_.erase({name, stored});
  ++saved_.segments;
  saved_.tokens += static_cast<std::int64_t>(header.tokens.size());
  saved_.bytes += header.file_bytes();
  saved_.loss += loss;
}

}  // namespace banyan
