// The GPU, its stream and memory (device.h).
#include "kernels/cuda/device/device.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/device_error.h"

namespace banyan::cuda {

void Check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // so that the next call does not report this one again
  const std::string message =
      fmt::format("cuda: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
  if (status == cudaErrorMemoryAllocation) throw Error(ErrorKind::kLimit, message);
  throw DeviceError(message);
}

void CheckLaunch(const char* what) { Check(cudaGetLastError(), what); }

int CountDevices() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess || count == 0) {
    cudaGetLastError();
    Throw(ErrorKind::kUnsupported, "device cuda: no usable GPU on this machine ({})",
          found == cudaSuccess ? "none found" : cudaGetErrorString(found));
  }
  return count;
}

Device::Device(int wanted) {
  const int count = CountDevices();
  if (wanted >= count) {
    Throw(ErrorKind::kUnsupported, "device cuda:{}: this machine has {} GPU{}, from cuda:0 on",
          wanted, count, count == 1 ? "" : "s");
  }
  if (wanted >= 0) Check(cudaSetDevice(wanted), "current device");
  Check(cudaGetDevice(&ordinal), "current device");
  cudaDeviceProp properties{};
  Check(cudaGetDeviceProperties(&properties, ordinal), "device properties");
  if (properties.major < 8) {
    Throw(ErrorKind::kUnsupported, "device cuda: {} is sm_{}{}: expected sm_80 or newer",
          properties.name, properties.major, properties.minor);
  }
  name = fmt::format("{}, sm_{}{}", properties.name, properties.major, properties.minor);
  multiprocessors = properties.multiProcessorCount;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  Check(cudaEventCreateWithFlags(&posted, cudaEventDisableTiming), "event");
  cudaMemPoolProps pool_properties{};
  pool_properties.allocType = cudaMemAllocationTypePinned;
  pool_properties.location.type = cudaMemLocationTypeDevice;
  pool_properties.location.id = ordinal;
  Check(cudaMemPoolCreate(&pool, &pool_properties), "memory pool");
  // Small pieces stay with the pool between steps; what exceeds this goes back when idle.
  std::uint64_t kept = std::uint64_t{256} << 20;
  Check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept), "memory pool");
}

Device::~Device() {
  if (stream != nullptr) {
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
  }
  if (posted != nullptr) cudaEventDestroy(posted);
  if (pool != nullptr) cudaMemPoolDestroy(pool);
}

void Device::Enter() const { Check(cudaSetDevice(ordinal), "current device"); }

void Device::Post() const {
  Check(cudaEventRecord(posted, stream), "event");
  posts.fetch_add(1, std::memory_order_relaxed);
}

void Device::Follow(const Device& other) const {
  Check(cudaStreamWaitEvent(stream, other.posted, 0), "wait for another shard");
}

std::string Device::State() const {
  if (recording != nullptr) return fmt::format("cuda:{} records", ordinal);
  cudaSetDevice(ordinal);
  const cudaError_t work = cudaStreamQuery(stream), post = cudaEventQuery(posted);
  const auto text = [](cudaError_t status, const char* done, const char* not_done) {
    if (status == cudaErrorNotReady) return not_done;
    return status == cudaSuccess ? done : cudaGetErrorName(status);
  };
  return fmt::format("cuda:{} {}, {} posts, the last {}", ordinal, text(work, "idle", "busy"),
                     posts.load(), text(post, "reached", "not reached"));
}

void Device::Reach(const Device& other) const {
  if (other.ordinal == ordinal) return;
  int can = 0;
  Check(cudaDeviceCanAccessPeer(&can, ordinal, other.ordinal), "link between devices");
  if (can == 0) {
    Throw(ErrorKind::kUnsupported,
          "--tensor-parallel: cuda:{} cannot read the memory of cuda:{} (nvidia-smi topo -p2p r "
          "shows which can)",
          ordinal, other.ordinal);
  }
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = ordinal;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  Check(cudaMemPoolSetAccess(other.pool, &access, 1), "memory of another device");
}

void Device::Synchronize() const { Check(cudaStreamSynchronize(stream), "device work"); }

std::int64_t Device::FreeBytes() const {
  Synchronize();  // what was freed in stream order is free then
  size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total), "free memory");
  std::uint64_t reserved = 0, used = 0;
  Check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved), "memory pool");
  Check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), "memory pool");
  return static_cast<std::int64_t>(free + reserved - used);
}

namespace {

int AttributeOfCurrent(cudaDeviceAttr attribute) {
  int device = 0, found = 0;
  Check(cudaGetDevice(&device), "current device");
  Check(cudaDeviceGetAttribute(&found, attribute, device), "device");
  return found;
}

}  // namespace

int Multiprocessors() {
  static const int count = AttributeOfCurrent(cudaDevAttrMultiProcessorCount);
  return count;
}

int MostSharedBytes() {
  static const int bytes = AttributeOfCurrent(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  return bytes;
}

DeviceMemory::DeviceMemory(std::shared_ptr<const Device> device, std::int64_t bytes,
                           const char* what)
    : device_(std::move(device)), bytes_(std::max<std::int64_t>(bytes, 16)) {
  if (device_->recording != nullptr)
    Throw(ErrorKind::kLimit, "cuda: {}: not while recording", what);
  const cudaError_t status =
      cudaMallocFromPoolAsync(&data_, static_cast<size_t>(bytes_), device_->pool, device_->stream);
  if (status == cudaSuccess) return;
  cudaGetLastError();
  data_ = nullptr;
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  if (status != cudaErrorMemoryAllocation) Check(status, what);
  Throw(ErrorKind::kLimit,
        "cuda: no memory for {}: {} MiB wanted, {} of {} MiB free (nvidia-smi lists who holds the "
        "rest; a banyan without --kv-memory takes all that is free)",
        what, bytes_ >> 20, free >> 20, total >> 20);
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) cudaFreeAsync(data_, device_->stream);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void DeviceMemory::Zero() {
  Check(cudaMemsetAsync(data_, 0, static_cast<size_t>(bytes_), device_->stream), "clear");
}

void DeviceMemory::CopyFromHost(const void* source, std::int64_t bytes, std::int64_t offset) {
  BANYAN_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= bytes_);
  if (bytes == 0) return;
  Check(cudaMemcpyAsync(As<std::byte>() + offset, source, static_cast<size_t>(bytes),
                        cudaMemcpyHostToDevice, device_->stream),
        "copy to the device");
  // Pageable memory is staged by the driver, but may be read until the copy is done.
  device_->Synchronize();
}

PinnedMemory::PinnedMemory(std::int64_t bytes) : bytes_(bytes) {
  Check(cudaMallocHost(reinterpret_cast<void**>(&data_), static_cast<size_t>(bytes)),
        "pinned host memory");
}

PinnedMemory::~PinnedMemory() {
  if (data_ != nullptr) cudaFreeHost(data_);
}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Event::Event() { Check(cudaEventCreate(&event_), "event"); }
Event::~Event() { cudaEventDestroy(event_); }
void Event::Record(cudaStream_t stream) { Check(cudaEventRecord(event_, stream), "event"); }
void Event::Wait() const { Check(cudaEventSynchronize(event_), "device work"); }

double Event::SecondsSince(const Event& earlier) const {
  Wait();
  float milliseconds = 0.0f;
  Check(cudaEventElapsedTime(&milliseconds, earlier.event_, event_), "event");
  return milliseconds * 1e-3;
}

}  // namespace banyan::cuda
