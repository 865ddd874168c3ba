// Device memory of a step's index arrays. Every array has room to spare and keeps its place from
// step to step until one outgrows its room, so that recorded launches (step_graphs.h) find the
// arrays of a later step where those of theirs were.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/staging.h"

namespace banyan::cuda {

class StepMemory {
 public:
  explicit StepMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  struct Array {
    const void* data = nullptr;  // null: room only
    size_t bytes = 0;
  };
  // In stream order, after everything that reads what was here. Arrays are told apart by their
  // index: give them in the same order each time.
  void Send(std::span<const Array> arrays, Staging& staging);

  // A multiple of 256 bytes from the start of an allocation.
  std::byte* at(size_t array) const { return memory_.As<std::byte>() + places_[array]; }
  // Another one when places have changed; no two memories ever have the same.
  std::uint64_t version() const { return version_; }

 private:
  void MakeRoom(std::span<const Array> arrays);

  std::shared_ptr<const Device> device_;
  DeviceMemory memory_;
  std::vector<size_t> rooms_, places_;  // bytes, by array
  std::uint64_t version_ = 0;
};

}  // namespace banyan::cuda
