// The index of a KV store, an SQLite file: whatever its bytes are, a reader finds blocks or does
// not find them, and whoever writes makes it anew if need be.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "banyan/error.h"
#include "base/error.h"
#include "store/store_index.h"

namespace {

using namespace banyan;  // NOLINT(google-build-using-namespace)
namespace fs = std::filesystem;

// In memory where there is such a place.
const std::string& IndexPath() {
  static const std::string* path = [] {
    std::error_code none;
    const fs::path base =
        fs::is_directory("/dev/shm", none) ? "/dev/shm" : fs::temp_directory_path();
    const fs::path folder = base / ("banyan-store-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(folder);
    std::atexit([] {
      std::error_code error;
      fs::remove_all(fs::path(IndexPath()).parent_path(), error);
    });
    return new std::string(folder / "index.sqlite");
  }();
  return *path;
}

void Use(StoreIndex& index, StoreIndex::Mode mode) {
  for (const IndexedSegment& segment : index.List()) BANYAN_CHECK(segment.number >= 0);
  (void)index.Evictable(1 << 30);
  (void)index.TotalBytes();
  (void)index.limit();
  for (int i = 0; i < 2; ++i) {
    Digest name{};  // as the seeds have them
    name.fill(static_cast<std::uint8_t>(i));
    (void)index.Find(name, KvType::kF16);
  }
  if (mode == StoreIndex::Mode::kRead) return;
  index.SetLimit(1 << 20);
  index.Touch({1}, 5);
  index.SetPinned(1, true);
  index.Remove(1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string& path = IndexPath();
  for (const auto mode : {StoreIndex::Mode::kRead, StoreIndex::Mode::kWrite}) {
    for (const char* ending : {"-wal", "-shm", "-journal"}) ::unlink((path + ending).c_str());
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    try {
      StoreIndex index(path, mode);
      Use(index, mode);
    } catch (const Error&) {
    }
  }
  return 0;
}
