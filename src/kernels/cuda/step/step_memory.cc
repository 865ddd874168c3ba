#include "kernels/cuda/step/step_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace banyan::cuda {
namespace {

constexpr size_t kLeastRoom = 1024;
// Unused bytes that are cheaper to copy than to leave out: a copy takes about as long as 64 KiB.
constexpr size_t kCopiedGap = size_t{1} << 15;

}  // namespace

void StepMemory::MakeRoom(std::span<const Array> arrays) {
  bool grown = rooms_.size() != arrays.size();
  std::vector<size_t> rooms = rooms_;
  rooms.resize(arrays.size(), kLeastRoom);
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].bytes <= rooms[i]) continue;
    rooms[i] = std::bit_ceil(arrays[i].bytes);
    grown = true;
  }
  if (!grown) return;
  places_.clear();
  size_t end = 0;
  for (const size_t room : rooms) {
    places_.push_back(end);
    end += room;
  }
  rooms_.clear();  // none until the new memory is there
  memory_ = {};
  memory_ = DeviceMemory(device_, static_cast<std::int64_t>(end), "a step's index arrays");
  rooms_ = std::move(rooms);
  static std::atomic<std::uint64_t> versions{0};
  version_ = ++versions;
}

void StepMemory::Send(std::span<const Array> arrays, Staging& staging) {
  MakeRoom(arrays);
  size_t filled = 0;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].data != nullptr && arrays[i].bytes > 0) filled = places_[i] + arrays[i].bytes;
  }
  if (filled == 0) return;
  std::byte* pinned = staging.Reserve(static_cast<std::int64_t>(filled));
  std::vector<Staging::Piece> pieces;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].data == nullptr || arrays[i].bytes == 0) continue;
    std::memcpy(pinned + places_[i], arrays[i].data, arrays[i].bytes);
    const size_t end = places_[i] + arrays[i].bytes;
    if (!pieces.empty() && places_[i] - pieces.back().end <= kCopiedGap) {
      pieces.back().end = end;
    } else {
      pieces.push_back({places_[i], end});
    }
  }
  staging.Send(memory_.As<std::byte>(), pieces);
}

}  // namespace banyan::cuda
