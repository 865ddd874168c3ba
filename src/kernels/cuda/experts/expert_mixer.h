// MixExperts on the device: tables of experts, memory for the choices, and the order of launches.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/experts/expert_kernels.h"
#include "kernels/cuda/weights/device_matrix.h"
#include "kernels/kernels.h"

namespace banyan::cuda {

// Rows of a batch: 128 an expert where 8 of 128 are chosen, what the products of many rows take.
inline constexpr std::int64_t kDeviceExpertRows = 2048;

// Rows as products with weights of a form read them.
struct ExpertOperand {
  const void* rows = nullptr;
  const float* scales = nullptr;  // of codes
  std::int64_t row_bytes = 0;
};

// Where the matrices of all experts lie.
class DeviceExperts : public ExpertTable {
 public:
  std::vector<ExpertPart> gate_up, down;  // parts that make up the rows of a matrix
  std::vector<ExpertPart> gate, up;       // one each where the first product can have the gate
  ExpertForm form = ExpertForm::kF32;
  ExpertTiling tiling;
  DeviceMemory places, maps;                 // what their `experts` and `maps` point into
  DeviceMemory share_scales, choice_biases;  // of `numbers`; empty where they are
};

class ExpertMixer {
 public:
  ExpertMixer(std::shared_ptr<const Device> device, Precision precision)
      : device_(std::move(device)), precision_(precision) {}

  // Throws kUnsupported where experts are stored in different types.
  std::shared_ptr<const ExpertTable> Gather(std::vector<ExpertWeights> experts,
                                            ExpertNumbers numbers);
  void Mix(const Tensor& x, const ExpertCall& call, Tensor& out);
  // Its two parts, for at most kDeviceExpertRows rows, one after the other (Kernels::ExpertInner
  // and ExpertOutputs): routes of the first serve the second.
  void Inner(const Tensor& x, const ExpertCall& call, ExpertRows rows, const Tensor& inner);
  void Outputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner, Tensor& out);

 private:
  ExpertRoutes RoutesFor(const ExpertCall& call, ExpertRows rows);
  void MultiplyInner(const ExpertOperand& x, const ExpertCall& call, ExpertRows rows,
                     const Tensor& inner);
  void MultiplyOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner, float* out,
                       bool routes_are_there);

  std::shared_ptr<const Device> device_;
  Precision precision_;
  DeviceMemory routes_;  // of a batch of rows; made with the first table
};

}  // namespace banyan::cuda
