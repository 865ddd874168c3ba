// Reads blocks of a KV store on threads of its own, in the order in which they are asked for, and
// keeps what it read until it is taken: at most so many bytes at once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/segment_file.h"

namespace banyan {

struct BlockWish {
  std::uint64_t ticket = 0;  // the caller's
  std::string file;
  StoredBlock block;
  PageForm stored, wanted;  // its form in the file, and the one that is asked for
  bool plain = false;       // bytes as they are: a state
};

struct LoadedBlock {
  std::uint64_t ticket = 0;
  bool good = false;             // false: damaged, or gone
  std::vector<std::byte> bytes;  // in the wanted form
};

// Reading and checking keep two processors about as busy as one disk.
inline constexpr int kLoaderThreads = 2;
// Bytes that a loader holds at once: a few blocks, so that their buffers are soon reused. A new
// buffer costs about as much as reading into it.
std::int64_t LoaderBudget(const PageForm& wanted);

class BlockLoader {
 public:
  // `budget`: bytes that are read or wait to be taken, if there is more than one block.
  BlockLoader(int threads, std::int64_t budget);
  ~BlockLoader();
  BlockLoader(const BlockLoader&) = delete;
  BlockLoader& operator=(const BlockLoader&) = delete;

  void Ask(BlockWish wish);
  // Blocks that were read since the last call, in any order; if none was, waits so long for one.
  std::vector<LoadedBlock> Take(double seconds);
  // Returns the buffer of a block that was taken.
  void Recycle(LoadedBlock block);
  // Asked for and not taken.
  std::int64_t pending() const;

 private:
  void Work();
  std::vector<std::byte> Buffer(size_t bytes);

  const std::int64_t budget_;
  mutable std::mutex mutex_;
  std::condition_variable asked_, came_;
  std::deque<BlockWish> wishes_;
  std::vector<LoadedBlock> loaded_;
  std::vector<std::vector<std::byte>> buffers_;  // recycled
  std::int64_t held_bytes_ = 0;                  // of blocks being read, read or taken
  std::int64_t held_blocks_ = 0;
  std::int64_t pending_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace banyan
