// Device memory for the partials of one attention call and for its queries in 16 bits, grown when a
// step has more of them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "base/error.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/device.h"

namespace banyan::cuda {

class PartialMemory {
 public:
  explicit PartialMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  // Where the arrays lie depends on the shape and on where and how large the memory is, not on how
  // many partials there are: recorded launches find those of later steps.
  PartialArrays Reserve(std::int64_t partials, const AttentionShape& shape) {
    BANYAN_CHECK(partials * shape.heads <= std::numeric_limits<std::int32_t>::max());
    partial_bytes_ = BytesOf(shape);
    if (!Holds(partials, partial_bytes_)) {
      const std::int64_t bytes = partials * partial_bytes_;
      if (device_->recording == nullptr)
        memory_ = {};  // else the allocation is refused, and this stays
      memory_ = DeviceMemory(device_, bytes + bytes / 4, "partials of attention");
    }
    const std::int64_t heads = memory_.bytes() / partial_bytes_ * shape.heads;
    float* value = memory_.As<float>();
    return {value, value + heads * shape.head_dim, value + heads * (shape.head_dim + 1)};
  }

  // See AttentionCall::scaled_query.
  void* ReserveQueries(std::int64_t bytes) {
    if (queries_.bytes() < bytes) {
      if (!device_->recording) queries_ = {};
      queries_ = DeviceMemory(device_, bytes + bytes / 4, "queries in 16 bits");
    }
    return queries_.As<void>();
  }
  void* queries() const { return queries_.As<void>(); }

  bool Holds(std::int64_t partials, std::int64_t partial_bytes) const {
    return partials * partial_bytes <= memory_.bytes();
  }
  // Of one partial of the last call.
  std::int64_t partial_bytes() const { return partial_bytes_; }
  const void* data() const { return memory_.As<void>(); }
  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  static std::int64_t BytesOf(const AttentionShape& shape) {
    return std::int64_t{4} * shape.heads * (shape.head_dim + 2);
  }

  std::shared_ptr<const Device> device_;
  DeviceMemory memory_, queries_;
  std::int64_t partial_bytes_ = 0;
};

}  // namespace banyan::cuda
