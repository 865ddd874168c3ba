// One GPU as the backend sees it: a stream on which everything is ordered, a pool that memory comes
// from and goes back to in stream order, and the checks of every CUDA call. No kernels here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace banyan::cuda {

// Throws kLimit when `status` says that memory ran out, otherwise kIo with CUDA's own words; `what`
// names the operation. Does nothing on success.
void Check(cudaError_t status, const char* what);
// The error of the last launch.
void CheckLaunch(const char* what);

struct Recording;  // tensor_memory.h

struct Device {
  // The current device. Throws kUnsupported when there is none or it is older than sm_80.
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void Synchronize() const;
  // Bytes that nobody uses, those that the pool keeps for later included.
  std::int64_t FreeBytes() const;

  int ordinal = 0;
  cudaStream_t stream = nullptr;
  cudaMemPool_t pool = nullptr;
  std::string name;  // "NVIDIA H200, sm_90"
  int capability_major = 0;
  int multiprocessors = 0;  // what attention items are spread over
  // Launches are being recorded, not run: memory can neither be allocated nor freed. Null: no.
  mutable Recording* recording = nullptr;
};

// Of the current device.
int Multiprocessors();

// Device memory, freed in stream order; may outlive the Kernels that made it.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Throws kLimit naming `what` when the bytes are not to be had, and while launches are recorded.
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

}  // namespace banyan::cuda
