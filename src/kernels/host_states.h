// States in the host's memory, for the backends that compute there.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/states.h"

namespace banyan {

// A slot is [layers][window [taps - 1, channels], oldest token first; matrices [heads, value_dim /
// 16, key_dim, 16]], with values rounded up to 16.
class HostStates final : public StateMemory {
 public:
  static constexpr int kTile = 16;

  // Throws kLimit. The system commits memory at the first touch.
  HostStates(const StateShape& shape, int layers, int slots);

  void Copy(const StateCopy& copy);
  std::span<float> Slot(std::int32_t slot);  // of all layers
  float* Window(std::int32_t slot, int layer);
  float* Matrix(std::int32_t slot, int layer, int head);
  std::int64_t window_floats() const { return window_floats_; }
  std::int64_t matrix_floats() const { return matrix_floats_; }  // of a head
  // Of a matrix's value.
  std::int64_t At(int key, int value) const {
    return (value / kTile * std::int64_t{shape_.key_dim} + key) * kTile + value % kTile;
  }

 private:
  const StateShape shape_;
  const int layers_;
  const std::int64_t window_floats_, matrix_floats_;
  std::unique_ptr<float, void (*)(void*)> values_;
};

HostStates& AsHostStates(StateMemory& states);

// What a token does to a head's matrix before its key and value come in.
struct TokenFactors {
  float decay = 0.0f;
  float strength = 0.0f;  // of the value
};
// `step` and `strength`: the head's of ScanCall::inputs; `strength` is read with kDelta. In double.
TokenFactors FactorsOf(const ScanCall& call, float rate, float step, float strength);

}  // namespace banyan
