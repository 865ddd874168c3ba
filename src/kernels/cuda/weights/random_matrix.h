// Random weights made on the device (kernels/random_weights.h).
#pragma once

#include <memory>

#include "kernels/cuda/weights/device_matrix.h"
#include "kernels/random_weights.h"

namespace banyan::cuda {

// The same matrix as loading the same values from the host gives, in every bit.
std::shared_ptr<DeviceMatrix> MakeRandomMatrix(const std::shared_ptr<const Device>& device,
                                               const RandomWeights& weights, WeightForm form);

}  // namespace banyan::cuda
