// Two pinned buffers through which host bytes travel to the device, in turn: one is filled while
// the other is being copied.
#pragma once

#include <memory>
#include <span>

#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

class Staging {
 public:
  explicit Staging(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  // Room for `bytes` bytes, once the copy that used it last is done.
  std::byte* Reserve(std::int64_t bytes) {
    Slot& slot = slots_[next_];
    slot.done.Wait();
    if (slot.memory.bytes() < bytes) slot.memory = PinnedMemory(RoundedUp(bytes));
    return slot.memory.data();
  }

  // Copies what was written to the reserved room, in stream order.
  void Send(void* target, std::int64_t bytes) {
    const Piece all{0, static_cast<size_t>(bytes)};
    Send(static_cast<std::byte*>(target), std::span(&all, 1));
  }

  // The same for bytes [begin, end) of the room, each piece to its place from `target` on.
  struct Piece {
    size_t begin = 0, end = 0;
  };
  void Send(std::byte* target, std::span<const Piece> pieces) {
    Slot& slot = slots_[next_];
    for (const Piece& piece : pieces) {
      Check(cudaMemcpyAsync(target + piece.begin, slot.memory.data() + piece.begin,
                            piece.end - piece.begin, cudaMemcpyHostToDevice, device_->stream),
            "copy to the device");
    }
    slot.done.Record(device_->stream);
    next_ = 1 - next_;
  }

 private:
  struct Slot {
    PinnedMemory memory;
    Event done;
  };
  static std::int64_t RoundedUp(std::int64_t bytes) {
    std::int64_t size = std::int64_t{1} << 18;
    while (size < bytes) size *= 2;
    return size;
  }

  std::shared_ptr<const Device> device_;
  Slot slots_[2];
  int next_ = 0;
};

}  // namespace banyan::cuda
