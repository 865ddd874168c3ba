// A step's batch and plan in device memory, and how they get there.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/states/device_states.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// Device memory of a step's index arrays. Every array has room to spare and keeps its place from
// step to step until one outgrows its room, so that recorded launches (step_graphs.h) find the
// arrays of a later step where those of their own step were.
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

// Device memory for the partials of one attention call and for its queries in 16 bits, grown when a
// step has more of them.
class PartialMemory {
 public:
  explicit PartialMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  // Where the arrays lie depends on the shape and on where and how large the memory is, not on how
  // many partials there are: recorded launches find those of later steps.
  PartialArrays Reserve(std::int64_t partials, const AttentionShape& shape) {
    BANYAN_CHECK(partials * shape.heads <= std::numeric_limits<std::int32_t>::max());
    const std::int64_t partial_bytes = BytesOf(shape);
    largest_partial_ = std::max(largest_partial_, partial_bytes);
    if (!Holds(partials, partial_bytes)) {
      const std::int64_t bytes = partials * largest_partial_;
      if (device_->recording == nullptr)
        memory_ = {};  // else the allocation is refused, and this stays
      memory_ = DeviceMemory(device_, bytes + bytes / 4, "partials of attention");
    }
    const std::int64_t heads = memory_.bytes() / partial_bytes * shape.heads;
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
  // Of one partial of the largest shape.
  std::int64_t partial_bytes() const { return largest_partial_; }
  const void* data() const { return memory_.As<void>(); }
  std::int64_t bytes() const { return memory_.bytes(); }

 private:
  static std::int64_t BytesOf(const AttentionShape& shape) {
    return std::int64_t{4} * shape.heads * (shape.head_dim + 2);
  }

  std::shared_ptr<const Device> device_;
  DeviceMemory memory_, queries_;
  std::int64_t largest_partial_ = 0;
};

// A step's batch and plan in device memory.
class DeviceStep : public StepInputs {
 public:
  ~DeviceStep() override;

  std::int32_t* tokens = nullptr;             // [rows]
  const std::int32_t* positions = nullptr;    // [rows]
  const std::int32_t* slots = nullptr;        // [rows]
  const std::int32_t* logit_index = nullptr;  // [logit_rows]
  // [rows], [logit_rows] see Batch::variants; contents undefined when no row is adapted.
  const std::int32_t* variants = nullptr;
  const std::int32_t* logit_variants = nullptr;
  // What a rope does to the rows: cosine and sine are filled by the backend.
  struct Rope {
    float* cosine = nullptr;              // [rows, pairs]
    float* sine = nullptr;                // [rows, pairs]
    const float* query_factor = nullptr;  // [rows]; null: 1
  };
  std::vector<Rope> ropes;  // of SetRopes
  // The plan; see AttentionCall.
  const std::int32_t* pages = nullptr;
  const std::int32_t* merge_begin = nullptr;
  const MergeStep* merges = nullptr;
  std::int32_t partials = 0;
  bool single_partials = false;  // every row has one
  ContextOnDevice context;
  RunsOnDevice states() const { return {runs_, pieces_, waves_}; }
  // The arrays above that attention reads, side by side, with others and with room between them.
  std::span<const std::byte> lists;

  // Work units for a split; sent when the step was uploaded without it.
  const UnitLists& UnitsFor(const UnitSplit& split, Staging& staging) const;

  // Of the work units as they are now, and of all else that launches of the step depend on beside
  // its counts of rows: steps of equal layouts can share recorded launches.
  struct UnitLayout {
    UnitSplit split;
    const WorkUnit* units = nullptr;
    bool has_wide = false, has_narrow = false;
    auto operator<=>(const UnitLayout&) const = default;
  };
  struct Layout {
    std::uint64_t memory = 0;  // StepMemory::version
    std::vector<UnitLayout> units;
    bool single_partials = false;
    bool short_lists = false;  // what the merge is shaped by (merge.cu)
    std::vector<StateWave> waves;
    auto operator<=>(const Layout&) const = default;
  };
  Layout layout() const;

 private:
  friend class StepSender;
  // The step's items in the units of a split.
  HostUnits Units(const UnitSplit& split) const;

  std::shared_ptr<const Device> device_;
  std::shared_ptr<std::vector<std::unique_ptr<StepMemory>>> pool_;
  std::unique_ptr<StepMemory> memory_;
  std::vector<WorkUnit> items_;              // every item once, all its rows
  std::vector<std::int32_t> row_positions_;  // [rows]
  int wide_blocks_ = 0;                      // see UnitsOf
  bool reads_again_ = false;                 // AttentionPlan::reads_again
  const StateRun* runs_ = nullptr;           // of StateWaves
  const StatePiece* pieces_ = nullptr;
  std::vector<StateWave> waves_;
  struct SplitUnits {
    UnitSplit split;
    UnitLists lists;
  };
  mutable std::vector<SplitUnits> units_;
  mutable std::vector<std::unique_ptr<StepMemory>> other_units_;
};

class StepSender {
 public:
  StepSender(std::shared_ptr<const Device> device, Staging& staging)
      : device_(std::move(device)),
        staging_(staging),
        pool_(std::make_shared<std::vector<std::unique_ptr<StepMemory>>>()) {}

  // `ropes` are those that rows will be rotated by; `splits` are what attention is expected to ask
  // for.
  std::unique_ptr<DeviceStep> Send(const Batch& batch, const AttentionPlan& plan,
                                   std::span<const RopeTable> ropes,
                                   std::span<const UnitSplit> splits);

 private:
  std::unique_ptr<StepMemory> MemoryForStep();

  std::shared_ptr<const Device> device_;
  Staging& staging_;
  // Of steps that are over; the last one serves next, so that one step after the other finds the
  // same places.
  std::shared_ptr<std::vector<std::unique_ptr<StepMemory>>> pool_;
};

}  // namespace banyan::cuda
