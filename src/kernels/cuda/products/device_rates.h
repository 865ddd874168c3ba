// What the device reaches at best, with the products that the backend itself uses.
#pragma once

#include <memory>

#include "kernels/cuda/products/products.h"
#include "plan/cost.h"

namespace banyan::cuda {

// Best of a few runs of a large product (bf16 through `products`, float32 when null, of 8-bit codes
// when `int8`) and of a large copy within device memory, bytes read and written together. Zeros
// when memory is short.
MachineRates MeasureDeviceRates(const std::shared_ptr<const Device>& device, Products* products,
                                bool int8);

}  // namespace banyan::cuda
