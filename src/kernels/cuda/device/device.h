// One GPU as the backend sees it: a stream on which everything is ordered, a pool that memory comes
// from and goes back to in stream order, pinned staging buffers, and the checks of every CUDA call.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace banyan::cuda {

// Throws kLimit when `status` says that memory ran out, otherwise kIo with CUDA's own words; `what`
// names the operation. Does nothing on success.
void Check(cudaError_t status, const char* what);
// The error of the last launch.
void CheckLaunch(const char* what);

struct Recording;  // tensor_memory.h

struct Device {
  // The device of this number, which becomes the thread's current one; -1: the one that is. Throws
  // kUnsupported when it is not there or older than sm_80.
  explicit Device(int wanted = -1);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Makes it the current device of this thread, as launches and allocations need it.
  void Enter() const;
  void Synchronize() const;
  // What was launched here so far comes before what others launch after their Follow.
  void Post() const;
  void Follow(const Device& other) const;
  // "cuda:0 busy, 12 posts, the last not reached": for one who waits in vain, from another thread.
  std::string State() const;
  // Memory of the other's pool can be read here. Throws kUnsupported where the two have no link.
  void Reach(const Device& other) const;
  // Unused bytes, including those that the pool keeps for later.
  std::int64_t FreeBytes() const;

  int ordinal = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t posted = nullptr;
  cudaMemPool_t pool = nullptr;
  std::string name;         // "NVIDIA H200, sm_90"
  int multiprocessors = 0;  // what attention items are spread over
  // Launches are being recorded, not run: memory can neither be allocated nor freed. Null: no.
  mutable Recording* recording = nullptr;
  mutable std::atomic<int> posts = 0;
};

// GPUs of this process. Throws kUnsupported when there is none.
int CountDevices();
// Of the current device; where there are several, they are alike.
int Multiprocessors();
int MostSharedBytes();  // that a block can have
// Whether the kernels for Hopper can run: a Hopper GPU, code for it (hopper.cuh does not compile
// for sm_90 without the a), and a driver that makes tensor maps. Defined in launch.cu.
bool HasHopperKernels();

// Device memory, freed in stream order; may outlive the Kernels that made it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws kLimit naming `what` when memory runs out, and while launches are recorded.
  DeviceMemory(std::shared_ptr<const Device> device, std::int64_t bytes, const char* what);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  void Zero();
  void CopyFromHost(const void* source, std::int64_t bytes, std::int64_t offset = 0);
  template <typename T>
  T* As() const {
    return static_cast<T*>(data_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const Device> device_;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Host memory that the device copies from at full speed.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  explicit PinnedMemory(std::int64_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept { *this = std::move(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// A point in the stream that the host can wait for, and a clock between two of them.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(cudaStream_t stream);
  void Wait() const;                                // returns at once when never recorded
  double SecondsSince(const Event& earlier) const;  // waits for this event

 private:
  cudaEvent_t event_ = nullptr;
};

// Two pinned buffers through which host bytes go to the device: one is filled while the other is
// copied.
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
