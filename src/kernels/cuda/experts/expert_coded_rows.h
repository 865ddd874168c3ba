// MultiplyManyExpertRows of compact weights.
#pragma once

#include "kernels/cuda/experts/expert_kernels.h"

namespace banyan::cuda {

void MultiplyManyCodedExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                                 const ExpertProduct& product, ExpertStart start);
// Of four-bit codes.
void MultiplyManyCodedExpertRows4(cudaStream_t stream, const ExpertRoutes& routes,
                                  const ExpertProduct& product, ExpertStart start);

}  // namespace banyan::cuda
