#include "store/block_loader.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "plan/attention_plan.h"
#include "store/segment_file.h"

namespace banyan {
namespace {

std::int64_t LoadedBytes(const BlockWish& wish) {
  if (wish.plain) return wish.block.bytes;
  return wish.block.bytes / wish.stored.head_bytes * wish.wanted.head_bytes;
}

// The file that a thread read last; blocks of one follow one another.
struct OpenSegment {
  std::string path;
  std::optional<SegmentFile> file;

  const SegmentFile* Find(const std::string& wanted) {
    if (path != wanted || !file) {
      file = SegmentFile::Open(wanted);
      path = wanted;
    }
    return file ? &*file : nullptr;
  }
};

bool LoadBlock(const BlockWish& wish, OpenSegment& open, std::vector<std::byte>& scratch,
               std::span<std::byte> out) {
  // What an index that was changed may say.
  if (wish.block.bytes <= 0) return false;
  if (!wish.plain && wish.block.bytes % wish.stored.head_bytes != 0) return false;
  const SegmentFile* file = open.Find(wish.file);
  if (file == nullptr) return false;
  if (wish.plain || wish.stored.type == wish.wanted.type) return file->Read(wish.block, out);
  scratch.resize(static_cast<size_t>(wish.block.bytes));
  if (!file->Read(wish.block, scratch)) return false;
  ConvertPages(wish.stored, scratch, wish.wanted, out);
  return true;
}

}  // namespace

std::int64_t LoaderBudget(const PageForm& wanted) {
  constexpr std::int64_t kLeastBytes = std::int64_t{8} << 20, kBlocks = 4;
  return std::max(kLeastBytes, kBlocks * wanted.page_bytes() * (kCutKeys / kPageTokens));
}

BlockLoader::BlockLoader(int threads, std::int64_t budget) : budget_(budget) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

BlockLoader::~BlockLoader() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    asked_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void BlockLoader::Ask(BlockWish wish) {
  const std::lock_guard lock(mutex_);
  wishes_.push_back(std::move(wish));
  ++pending_;
  asked_.notify_one();
}

std::int64_t BlockLoader::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_;
}

std::vector<LoadedBlock> BlockLoader::Take(double seconds) {
  std::unique_lock lock(mutex_);
  if (loaded_.empty() && seconds > 0.0 && pending_ > 0) {
    came_.wait_for(lock, std::chrono::duration<double>(seconds),
                   [this] { return !loaded_.empty(); });
  }
  pending_ -= static_cast<std::int64_t>(loaded_.size());
  return std::exchange(loaded_, {});
}

void BlockLoader::Recycle(LoadedBlock block) {
  const std::lock_guard lock(mutex_);
  held_bytes_ -= static_cast<std::int64_t>(block.bytes.size());
  --held_blocks_;
  buffers_.push_back(std::move(block.bytes));
  asked_.notify_all();
}

// REQUIRES: mutex_. Memory that was touched before is faster than new memory.
std::vector<std::byte> BlockLoader::Buffer(size_t bytes) {
  const auto fits =
      std::ranges::find_if(buffers_, [&](const auto& b) { return b.capacity() >= bytes; });
  std::vector<std::byte> buffer;
  if (fits != buffers_.end()) {
    buffer = std::move(*fits);
    buffers_.erase(fits);
  }
  return buffer;
}

void BlockLoader::Work() {
  OpenSegment open;
  std::vector<std::byte> scratch;
  std::unique_lock lock(mutex_);
  for (;;) {
    // The first wish takes its room before anyone looks at the second: whoever waits for a block
    // that comes later has all that it needs before.
    asked_.wait(lock, [this] {
      return ending_ ||
             (!wishes_.empty() &&
              (held_blocks_ == 0 || held_bytes_ + LoadedBytes(wishes_.front()) <= budget_));
    });
    if (ending_) return;
    const BlockWish wish = std::move(wishes_.front());
    wishes_.pop_front();
    const std::int64_t bytes = LoadedBytes(wish);
    held_bytes_ += bytes;
    ++held_blocks_;
    LoadedBlock loaded{wish.ticket, false, Buffer(static_cast<size_t>(bytes))};
    lock.unlock();
    try {
      loaded.bytes.resize(static_cast<size_t>(bytes));
      loaded.good = LoadBlock(wish, open, scratch, loaded.bytes);
    } catch (const std::exception&) {  // no memory: not good, so the caller computes it
      loaded.good = false;
    }
    lock.lock();
    held_bytes_ += static_cast<std::int64_t>(loaded.bytes.size()) - bytes;
    loaded_.push_back(std::move(loaded));
    came_.notify_all();
  }
}

}  // namespace banyan
