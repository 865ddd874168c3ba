#include "kernels/host_states.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace banyan {
namespace {

constexpr double kSoftplusIsLinear = 20.0;  // from here on, as Transformers has it

std::int64_t WindowFloats(const StateShape& shape) {
  return std::int64_t{shape.taps - 1} * shape.channels;
}

std::int64_t MatrixFloats(const StateShape& shape) {
  constexpr std::int64_t kTile = HostStates::kTile;
  return (shape.value_dim + kTile - 1) / kTile * kTile * shape.key_dim;
}

}  // namespace

std::int64_t StateShape::floats() const {
  return WindowFloats(*this) + heads * MatrixFloats(*this);
}

HostStates::HostStates(const StateShape& shape, int layers, int slot_count)
    : shape_(shape),
      layers_(layers),
      window_floats_(WindowFloats(shape)),
      matrix_floats_(MatrixFloats(shape)),
      values_(nullptr, std::free) {
  slots = slot_count;
  const std::int64_t bytes = shape.bytes() * layers * slots;
  values_.reset(static_cast<float*>(std::calloc(1, static_cast<size_t>(bytes))));
  if (values_ == nullptr) {
    Throw(ErrorKind::kLimit, "no memory for {} states ({} MiB)", slots, bytes >> 20);
  }
}

void HostStates::Copy(const StateCopy& copy) {
  const std::int64_t bytes = shape_.bytes() * layers_;
  std::memcpy(Window(copy.to, 0), Window(copy.from, 0), static_cast<size_t>(bytes));
}

std::span<float> HostStates::Slot(std::int32_t slot) {
  return {Window(slot, 0), static_cast<size_t>(shape_.floats() * layers_)};
}

float* HostStates::Window(std::int32_t slot, int layer) {
  BANYAN_CHECK(slot >= 0 && slot < slots && layer >= 0 && layer < layers_);
  return values_.get() + (std::int64_t{slot} * layers_ + layer) * shape_.floats();
}

float* HostStates::Matrix(std::int32_t slot, int layer, int head) {
  BANYAN_CHECK(head >= 0 && head < shape_.heads);
  return Window(slot, layer) + window_floats_ + head * matrix_floats_;
}

HostStates& AsHostStates(StateMemory& states) {
  auto* known = dynamic_cast<HostStates*>(&states);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

TokenFactors FactorsOf(const ScanCall& call, float rate, float step, float strength) {
  double length = step;
  if (length <= kSoftplusIsLinear) length = std::log1p(std::exp(length));
  const bool mamba = call.shape.rule == StateRule::kMamba2;
  if (mamba) length = std::clamp<double>(length, call.least_step, call.most_step);
  TokenFactors factors;
  factors.decay = static_cast<float>(std::exp(rate * length));
  factors.strength =
      static_cast<float>(mamba ? length : 1.0 / (1.0 + std::exp(-static_cast<double>(strength))));
  return factors;
}

}  // namespace banyan
