#include "kernels/cuda/device_step.h"

#include <cstring>

namespace banyan::cuda {
namespace {

std::vector<WorkUnit> UnitsOf(const std::vector<WorkUnit>& items, int ratio) {
  std::vector<WorkUnit> units;
  units.reserve(items.size());
  for (WorkUnit unit : items) {
    const std::int32_t packed_rows = (unit.item.row_end - unit.item.row_begin) * ratio;
    for (std::int32_t first = 0; first < packed_rows; first += kUnitRows) {
      unit.first_packed_row = first;
      units.push_back(unit);
    }
  }
  return units;
}

// Lays arrays out one after the other, each at a multiple of 16 bytes.
class Arrays {
 public:
  template <typename T>
  size_t Add(const std::vector<T>& values) {
    return Add(values.data(), values.size() * sizeof(T));
  }
  size_t Room(size_t bytes) { return Add(nullptr, bytes); }

  std::int64_t bytes() const { return static_cast<std::int64_t>(end_); }
  // Up to the last array that has contents.
  std::int64_t filled() const { return static_cast<std::int64_t>(filled_); }
  void CopyTo(std::byte* target) const {
    for (const Piece& piece : pieces_) std::memcpy(target + piece.at, piece.data, piece.bytes);
  }

 private:
  struct Piece {
    const void* data;
    size_t bytes, at;
  };
  size_t Add(const void* data, size_t bytes) {
    const size_t at = end_;
    end_ = (end_ + bytes + 15) / 16 * 16;
    if (data != nullptr && bytes > 0) {
      pieces_.push_back({data, bytes, at});
      filled_ = end_;
    }
    return at;
  }
  std::vector<Piece> pieces_;
  size_t end_ = 0, filled_ = 0;
};

}  // namespace

std::unique_ptr<DeviceStep> UploadStep(const std::shared_ptr<const Device>& device,
                                       const Batch& batch, const AttentionPlan& plan, int pairs,
                                       int ratio, Staging& staging) {
  auto step = std::make_unique<DeviceStep>();
  step->device_ = device;
  step->rows = batch.rows();
  step->logit_rows = static_cast<int>(batch.logit_rows.size());
  step->partials = plan.partials;
  for (const WorkItem& item : plan.items) {
    step->items_.push_back({item, plan.spans[static_cast<size_t>(item.span)], 0});
  }
  const std::vector<WorkUnit> units = UnitsOf(step->items_, ratio);

  Arrays arrays;
  const size_t tokens = arrays.Add(batch.tokens);
  const size_t positions = arrays.Add(batch.positions);
  const size_t slots = arrays.Add(batch.slots);
  const size_t logit_index = arrays.Add(batch.logit_rows);
  const size_t pages = arrays.Add(plan.pages);
  const size_t merge_begin = arrays.Add(plan.merge_begin);
  const size_t merges = arrays.Add(plan.merges);
  const size_t unit_list = arrays.Add(units);
  const size_t table = batch.tokens.size() * static_cast<size_t>(pairs) * sizeof(float);
  const size_t cosine = arrays.Room(table);
  const size_t sine = arrays.Room(table);

  step->memory = DeviceMemory(device, arrays.bytes(), "a step's index arrays");
  if (arrays.filled() > 0) {
    arrays.CopyTo(staging.Reserve(arrays.filled()));
    staging.Send(step->memory.As<void>(), arrays.filled());
  }
  const auto at = [&](size_t offset) { return step->memory.As<std::byte>() + offset; };
  step->tokens = reinterpret_cast<const std::int32_t*>(at(tokens));
  step->positions = reinterpret_cast<const std::int32_t*>(at(positions));
  step->slots = reinterpret_cast<const std::int32_t*>(at(slots));
  step->logit_index = reinterpret_cast<const std::int32_t*>(at(logit_index));
  step->pages = reinterpret_cast<const std::int32_t*>(at(pages));
  step->merge_begin = reinterpret_cast<const std::int32_t*>(at(merge_begin));
  step->merges = reinterpret_cast<const MergeEntry*>(at(merges));
  step->cosine = reinterpret_cast<const float*>(at(cosine));
  step->sine = reinterpret_cast<const float*>(at(sine));
  step->units_ = {ratio, reinterpret_cast<const WorkUnit*>(at(unit_list)),
                  static_cast<int>(units.size())};
  return step;
}

const DeviceStep::Units& DeviceStep::UnitsFor(int ratio, Staging& staging) const {
  if (units_.ratio == ratio) return units_;
  const std::vector<WorkUnit> units = UnitsOf(items_, ratio);
  const auto bytes = static_cast<std::int64_t>(units.size() * sizeof(WorkUnit));
  other_units_ = DeviceMemory(device_, bytes, "a step's work units");
  if (bytes > 0) {
    std::memcpy(staging.Reserve(bytes), units.data(), static_cast<size_t>(bytes));
    staging.Send(other_units_.As<void>(), bytes);
  }
  units_ = {ratio, other_units_.As<WorkUnit>(), static_cast<int>(units.size())};
  return units_;
}

}  // namespace banyan::cuda
