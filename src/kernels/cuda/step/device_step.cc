// How a step's index arrays are laid out in device memory and sent there.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "kernels/cuda/step/device_step.h"

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

namespace {

template <typename T>
StepMemory::Array ArrayOf(const std::vector<T>& values) {
  return {values.data(), values.size() * sizeof(T)};
}

// The arrays of a step in the order in which StepMemory gets them.
enum StepArray {
  kVariants,
  kLogitVariants,
  kQueryFactors,
  kTokens,
  kPositions,
  kSlots,
  kLogitIndex,
  kMergeBegin,
  kPages,
  kMerges,
  kRuns,
  kPieces,
  kUnits,  // kArraysOfUnits for each split; the tables below are behind all of them
};
constexpr size_t kArraysOfUnits = 3;  // counts, units of many rows, units of few rows

// `first`: the index of the counts in `memory`; the others follow.
UnitLists ListsIn(const StepMemory& memory, size_t first, const UnitCounts& counts) {
  UnitLists lists;
  lists.has_wide = counts.wide > 0;
  lists.has_narrow = counts.narrow > 0;
  lists.counts = reinterpret_cast<const UnitCounts*>(memory.at(first));
  lists.many_rows = reinterpret_cast<const WorkUnit*>(memory.at(first + 1));
  lists.few_rows = reinterpret_cast<const WorkUnit*>(memory.at(first + 2));
  return lists;
}

bool HasSinglePartials(const AttentionPlan& plan) {
  for (size_t row = 1; row < plan.merge_begin.size(); ++row) {
    if (plan.merge_begin[row] - plan.merge_begin[row - 1] != 1) return false;
  }
  return true;
}

ContextOnDevice ContextOf(const AttentionPlan& plan) {
  const auto spans = static_cast<size_t>(plan.context.spans);
  if (spans == 0) return {};
  const size_t pages = spans < plan.spans.size() ? static_cast<size_t>(plan.spans[spans].first_page)
                                                 : plan.pages.size();
  return {static_cast<std::int32_t>(pages), 1.0f / plan.context.temperature, plan.context.scale};
}

// Floats of a rope's cosines for a row, and of the sines: tables begin where 16 bytes do.
size_t TableStride(const RopeTable& rope) { return (rope.inverse_frequency.size() + 3) / 4 * 4; }

// [ropes, rows]; empty when no rope has any.
std::vector<float> QueryFactors(const Batch& batch, std::span<const RopeTable> ropes) {
  std::vector<float> factors;
  if (std::ranges::all_of(ropes, [](const RopeTable& r) { return r.query_interval == 0; })) {
    return factors;
  }
  for (const RopeTable& rope : ropes) {
    for (const std::int32_t position : batch.positions) {
      factors.push_back(QueryFactor(rope, position));
    }
  }
  return factors;
}

}  // namespace

DeviceStep::Layout DeviceStep::layout() const {
  Layout layout{
      memory_->version(), {}, single_partials, partials <= kLongestShortList * rows, waves_};
  for (const SplitUnits& units : units_) {
    layout.units.push_back(
        {units.split, units.lists.many_rows, units.lists.has_wide, units.lists.has_narrow});
  }
  return layout;
}

HostUnits DeviceStep::Units(const UnitSplit& split) const {
  HostUnits units = UnitsOf(items_, row_positions_, split, wide_blocks_);
  units.counts.reads_again = reads_again_ ? 1 : 0;
  return units;
}

DeviceStep::~DeviceStep() {
  if (memory_) pool_->push_back(std::move(memory_));
}

std::unique_ptr<StepMemory> StepSender::MemoryForStep() {
  if (pool_->empty()) return std::make_unique<StepMemory>(device_);
  std::unique_ptr<StepMemory> memory = std::move(pool_->back());
  pool_->pop_back();
  return memory;
}

std::unique_ptr<DeviceStep> StepSender::Send(const Batch& batch, const AttentionPlan& plan,
                                             std::span<const RopeTable> ropes,
                                             std::span<const UnitSplit> splits) {
  auto step = std::make_unique<DeviceStep>();
  step->device_ = device_;
  step->pool_ = pool_;
  step->memory_ = MemoryForStep();
  step->rows = batch.rows();
  step->logit_rows = static_cast<int>(batch.logit_rows.size());
  SetVariants(batch, *step);
  step->partials = plan.partials;
  step->single_partials = HasSinglePartials(plan);
  step->context = ContextOf(plan);
  step->items_ = WholeItems(plan);
  step->row_positions_ = batch.positions;
  step->wide_blocks_ = plan.many_row_workers > 0 ? plan.many_row_workers : device_->multiprocessors;
  step->reads_again_ = plan.reads_again;
  std::vector<HostUnits> units;
  for (const UnitSplit& split : splits) units.push_back(step->Units(split));
  const StateWaves states = WavesOf(batch.states);
  step->waves_ = states.waves;
  const std::vector<MergeStep> merges = MergeStepsOf(plan);

  size_t table = 0;  // bytes of all ropes' cosines
  for (const RopeTable& rope : ropes) {
    table += batch.tokens.size() * TableStride(rope) * sizeof(float);
  }
  const std::vector<float> query_factors = QueryFactors(batch, ropes);
  const size_t cosines = kUnits + kArraysOfUnits * units.size(), sines = cosines + 1;
  std::vector<StepMemory::Array> arrays(sines + 1);
  const std::vector<std::int32_t> logit_variants = VariantsOf(batch, StepRows::kLogits);
  arrays[kVariants] = ArrayOf(batch.variants);
  arrays[kLogitVariants] = ArrayOf(logit_variants);
  arrays[kQueryFactors] = ArrayOf(query_factors);
  arrays[kTokens] = ArrayOf(batch.tokens);
  arrays[kPositions] = ArrayOf(batch.positions);
  arrays[kSlots] = ArrayOf(batch.slots);
  arrays[kLogitIndex] = ArrayOf(batch.logit_rows);
  arrays[kMergeBegin] = ArrayOf(plan.merge_begin);
  arrays[kPages] = ArrayOf(plan.pages);
  arrays[kMerges] = ArrayOf(merges);
  arrays[kRuns] = ArrayOf(states.runs);
  arrays[kPieces] = ArrayOf(states.pieces);
  for (size_t i = 0; i < units.size(); ++i) {
    const size_t first = kUnits + kArraysOfUnits * i;
    arrays[first] = {&units[i].counts, sizeof(units[i].counts)};
    arrays[first + 1] = ArrayOf(units[i].many_rows);
    arrays[first + 2] = ArrayOf(units[i].few_rows);
  }
  arrays[cosines] = {nullptr, table};
  arrays[sines] = {nullptr, table};
  StepMemory& memory = *step->memory_;
  memory.Send(arrays, staging_);

  step->variants = reinterpret_cast<const std::int32_t*>(memory.at(kVariants));
  step->logit_variants = reinterpret_cast<const std::int32_t*>(memory.at(kLogitVariants));
  step->tokens = reinterpret_cast<std::int32_t*>(memory.at(kTokens));
  step->positions = reinterpret_cast<const std::int32_t*>(memory.at(kPositions));
  step->slots = reinterpret_cast<const std::int32_t*>(memory.at(kSlots));
  step->logit_index = reinterpret_cast<const std::int32_t*>(memory.at(kLogitIndex));
  step->pages = reinterpret_cast<const std::int32_t*>(memory.at(kPages));
  step->merge_begin = reinterpret_cast<const std::int32_t*>(memory.at(kMergeBegin));
  step->merges = reinterpret_cast<const MergeStep*>(memory.at(kMerges));
  step->runs_ = reinterpret_cast<const StateRun*>(memory.at(kRuns));
  step->pieces_ = reinterpret_cast<const StatePiece*>(memory.at(kPieces));
  auto* cosine = reinterpret_cast<float*>(memory.at(cosines));
  auto* sine = reinterpret_cast<float*>(memory.at(sines));
  const auto* factor = reinterpret_cast<const float*>(memory.at(kQueryFactors));
  for (const RopeTable& rope : ropes) {
    step->ropes.push_back({cosine, sine, rope.query_interval > 0 ? factor : nullptr});
    cosine += batch.tokens.size() * TableStride(rope);
    sine += batch.tokens.size() * TableStride(rope);
    factor += batch.tokens.size();
  }
  step->lists = {memory.at(kPositions), memory.at(cosines)};
  for (size_t i = 0; i < units.size(); ++i) {
    step->units_.push_back(
        {splits[i], ListsIn(memory, kUnits + kArraysOfUnits * i, units[i].counts)});
  }
  return step;
}

const UnitLists& DeviceStep::UnitsFor(const UnitSplit& split, Staging& staging) const {
  const auto known = std::ranges::find(units_, split, &SplitUnits::split);
  if (known != units_.end()) return known->lists;
  const HostUnits units = Units(split);
  const StepMemory::Array arrays[] = {
      {&units.counts, sizeof(units.counts)}, ArrayOf(units.many_rows), ArrayOf(units.few_rows)};
  auto memory = std::make_unique<StepMemory>(device_);
  memory->Send(arrays, staging);
  units_.push_back({split, ListsIn(*memory, 0, units.counts)});
  other_units_.push_back(std::move(memory));
  return units_.back().lists;
}

}  // namespace banyan::cuda
