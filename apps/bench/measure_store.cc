// How fast a store's segments come into KV memory, against reading their files.
#include "measure_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "load/model_parts.h"
#include "store/block_loader.h"
#include "store/segment_file.h"
#include "store/store_parts.h"

namespace banyan {
namespace {

using BenchClock = std::chrono::steady_clock;

double SecondsFrom(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

// The system forgets what it has of the file, if it can.
void DropFromMemory(const std::string& path) {
  const int fd = OpenFile(path, O_RDONLY);
  if (fd < 0) return;
  ::fdatasync(fd);
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  ::close(fd);
}

double PlainRead(const std::vector<std::string>& paths) {
  std::vector<std::byte> buffer(size_t{4} << 20);
  const auto start = BenchClock::now();
  for (const std::string& path : paths) {
    const int fd = OpenFile(path, O_RDONLY);
    if (fd < 0) Throw(ErrorKind::kIo, "{}: cannot open", path);
    std::int64_t at = 0, count = 0;
    while ((count = ReadAt(fd, at, buffer)) > 0) at += count;
    ::close(fd);
  }
  return SecondsFrom(start);
}

// Every block through the loader into pages, which are used in turn.
double LoadAll(const Model::Parts& model, const std::vector<BlockWish>& wishes) {
  constexpr int kPages = 1024;
  Kernels& kernels = *model.kernels;
  const PageForm& form = wishes.front().wanted;
  const std::shared_ptr<KvMemory> memory = kernels.NewKvMemory(form.shape, kPages);
  std::vector<std::int32_t> pages(kPages);
  for (int i = 0; i < kPages; ++i) pages[static_cast<size_t>(i)] = i;
  int next = 0;
  const auto start = BenchClock::now();
  BlockLoader loader(kLoaderThreads, LoaderBudget(form));
  for (const BlockWish& wish : wishes) loader.Ask(wish);
  while (loader.pending() > 0) {
    for (LoadedBlock& block : loader.Take(1.0)) {
      if (!block.good) Throw(ErrorKind::kFormat, "a block of the store is damaged");
      const auto count =
          static_cast<int>(static_cast<std::int64_t>(block.bytes.size()) / form.page_bytes());
      if (next + count > kPages) next = 0;
      kernels.WritePages(
          block.bytes,
          std::span(pages).subspan(static_cast<size_t>(next), static_cast<size_t>(count)), *memory);
      next += count;
      loader.Recycle(std::move(block));
    }
  }
  return SecondsFrom(start);
}

}  // namespace

StoreReadTimes MeasureStoreRead(const Model& model, KvStore& store) {
  const Model::Parts& parts = model.parts();
  const ModelConfig& config = parts.config;
  const KvType own = parts.kernels->page_type();
  const KvShape shape = KvShapeOf(config);
  const PageForm wanted = FormOf(shape, own);
  const PageForm stored = FormOf(shape, store.parts().StoredType(own));
  std::vector<std::string> paths;
  std::vector<BlockWish> wishes;
  StoreReadTimes times;
  for (const IndexedSegment& segment : store.parts().reading->List()) {
    if (segment.root != parts.variants.front().kv_name || segment.type != stored.type) continue;
    paths.push_back(store.parts().PathOf(segment.file));
    const std::optional<SegmentFile> file = SegmentFile::Open(paths.back());
    if (!file) Throw(ErrorKind::kIo, "{}: cannot open", paths.back());
    for (const StoredBlock& block : file->Header().blocks) {
      wishes.push_back({wishes.size(), paths.back(), block, stored, wanted});
    }
    times.bytes += segment.bytes;
  }
  if (wishes.empty()) {
    Throw(ErrorKind::kNotFound, "the store has nothing of this model and precision");
  }
  const auto drop = [&] {
    for (const std::string& path : paths) DropFromMemory(path);
  };
  drop();
  times.plain_cold = PlainRead(paths);
  drop();
  times.load_cold = LoadAll(parts, wishes);
  times.plain_warm = PlainRead(paths);
  times.load_warm = LoadAll(parts, wishes);
  return times;
}

}  // namespace banyan
