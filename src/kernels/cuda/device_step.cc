#include "kernels/cuda/device_step.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

namespace banyan::cuda {
namespace {

// Rows that a warp with 8 of them at a time still reads well; more go to a wide unit.
constexpr std::int32_t kMostNarrowRows = 2 * kNarrowRows;

struct HostUnits {
  std::vector<WorkUnit> many_rows, few_rows;
  std::int32_t counts[2] = {0, 0};
  double wide_pairs = 0.0, narrow_keys = 0.0;  // see NarrowBlocks
};

// Long units first, as before, but among those of about one length the readers of the same keys
// together, so that keys come from memory once and then from the cache.
void OrderByKeys(std::vector<WorkUnit>& units) {
  const auto order = [](const WorkUnit& unit) {
    const auto rows = static_cast<std::uint32_t>(unit.row_end - unit.row_begin);
    const auto keys = static_cast<std::uint32_t>(unit.key_end - unit.key_begin);
    const int length = std::bit_width(rows) + std::bit_width(keys);
    return std::tuple(-length, unit.first_page, unit.key_begin, unit.row_begin);
  };
  std::stable_sort(units.begin(), units.end(),
                   [&](const WorkUnit& a, const WorkUnit& b) { return order(a) < order(b); });
}

// Splits items into units of the size that their kernel takes.
HostUnits UnitsOf(const std::vector<WorkUnit>& items, std::span<const std::int32_t> positions,
                  DeviceStep::Split split) {
  HostUnits units;
  for (WorkUnit unit : items) {
    const std::int32_t packed_rows = (unit.row_end - unit.row_begin) * split.ratio;
    const bool narrow = split.form == UnitForm::kWideAndNarrow && packed_rows <= kMostNarrowRows;
    const std::int32_t size = split.form == UnitForm::kBlocks ? kBlockRows
                              : narrow                        ? kNarrowRows
                                                              : kWideRows;
    for (std::int32_t first = 0; first < packed_rows; first += size) {
      const std::int32_t last = std::min(first + size, packed_rows) - 1;
      unit.first_packed_row = first;
      const auto [low, high] =
          std::minmax_element(positions.begin() + unit.row_begin + first / split.ratio,
                              positions.begin() + unit.row_begin + last / split.ratio + 1);
      unit.lowest_offset = *low - unit.first_position;
      unit.highest_offset = *high - unit.first_position;
      const std::int32_t keys = std::min(unit.key_end, unit.highest_offset + 1) - unit.key_begin;
      if (narrow) {
        units.few_rows.push_back(unit);
        units.narrow_keys += keys;
      } else {
        units.many_rows.push_back(unit);
        units.wide_pairs += static_cast<double>(size) * keys;
      }
    }
  }
  if (split.form == UnitForm::kWideAndNarrow) OrderByKeys(units.many_rows);
  units.counts[0] = static_cast<std::int32_t>(units.many_rows.size());
  units.counts[1] = static_cast<std::int32_t>(units.few_rows.size());
  return units;
}

WorkUnit WholeItem(const WorkItem& item, const KvSpan& span) {
  WorkUnit unit;
  unit.row_begin = item.row_begin;
  unit.row_end = item.row_end;
  unit.reader_begin = item.reader_begin;
  unit.reader_end = item.reader_end;
  unit.key_begin = item.key_begin;
  unit.key_end = item.key_end;
  unit.first_partial = item.first_partial;
  unit.first_page = span.first_page;
  unit.first_position = span.first_position;
  return unit;
}

// Lays arrays out one after the other, each at a multiple of 16 bytes.
class Arrays {
 public:
  template <typename T>
  size_t Add(const std::vector<T>& values) {
    return Add(values.data(), values.size() * sizeof(T));
  }
  size_t AddUnits(const HostUnits& units) {
    const size_t at = Add(units.many_rows);
    Add(units.few_rows);
    Add(units.counts, sizeof(units.counts));
    return at;
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

// `at`: where AddUnits laid them. Units are whole multiples of 16 bytes, so nothing lies between.
UnitLists ListsAt(const std::byte* at, const HostUnits& units, int multiprocessors) {
  UnitLists lists;
  lists.many_count = units.counts[0];
  lists.few_count = units.counts[1];
  lists.few_blocks = NarrowBlocks(units.wide_pairs, units.narrow_keys, multiprocessors);
  lists.many_rows = reinterpret_cast<const WorkUnit*>(at);
  lists.few_rows = lists.many_rows + lists.many_count;
  lists.counts = reinterpret_cast<const std::int32_t*>(lists.few_rows + lists.few_count);
  return lists;
}

}  // namespace

std::unique_ptr<DeviceStep> UploadStep(const std::shared_ptr<const Device>& device,
                                       const Batch& batch, const AttentionPlan& plan, int pairs,
                                       DeviceStep::Split split, Staging& staging) {
  auto step = std::make_unique<DeviceStep>();
  step->device_ = device;
  step->rows = batch.rows();
  step->logit_rows = static_cast<int>(batch.logit_rows.size());
  step->partials = plan.partials;
  for (const WorkItem& item : plan.items) {
    step->items_.push_back(WholeItem(item, plan.spans[static_cast<size_t>(item.span)]));
  }
  step->row_positions_ = batch.positions;
  const HostUnits units = UnitsOf(step->items_, batch.positions, split);

  Arrays arrays;
  const size_t tokens = arrays.Add(batch.tokens);
  const size_t positions = arrays.Add(batch.positions);
  const size_t slots = arrays.Add(batch.slots);
  const size_t logit_index = arrays.Add(batch.logit_rows);
  const size_t pages = arrays.Add(plan.pages);
  const size_t merge_begin = arrays.Add(plan.merge_begin);
  const size_t merges = arrays.Add(plan.merges);
  const size_t unit_list = arrays.AddUnits(units);
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
  step->split_ = split;
  step->units_ = ListsAt(at(unit_list), units, device->multiprocessors);
  return step;
}

const UnitLists& DeviceStep::UnitsFor(Split split, Staging& staging) const {
  if (split_ == split) return units_;
  const HostUnits units = UnitsOf(items_, row_positions_, split);
  Arrays arrays;
  arrays.AddUnits(units);
  other_units_ = DeviceMemory(device_, arrays.bytes(), "a step's work units");
  arrays.CopyTo(staging.Reserve(arrays.filled()));
  staging.Send(other_units_.As<void>(), arrays.filled());
  split_ = split;
  units_ = ListsAt(other_units_.As<std::byte>(), units, device_->multiprocessors);
  return units_;
}

}  // namespace banyan::cuda
