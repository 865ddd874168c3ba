// A device that fails when a test tells it to.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "kernels/device_error.h"
#include "load/model_parts.h"
#include "support/forwarding_kernels.h"

namespace banyan::testing_support {

inline constexpr const char* kFailure = "the bus is off";

class FailingKernels : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    if (steps && --*steps < 0) throw DeviceError(kFailure);
    ForwardingKernels::Embed(step, table, out);
  }
  std::optional<int> steps;  // that succeed, from now on; nothing: all
};

// In place of the kernels of one of the model's devices. REQUIRES: no engine has them.
inline FailingKernels& MakeFailing(Model& model, size_t device) {
  std::unique_ptr<Kernels>& kernels = model.parts(device).kernels;
  auto failing = std::make_unique<FailingKernels>(std::move(kernels));
  FailingKernels& made = *failing;
  kernels = std::move(failing);
  return made;
}

}  // namespace banyan::testing_support
