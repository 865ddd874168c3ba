// MultiplyManyExpertRows of compact weights.
#pragma once

#include "kernels/cuda/experts/expert_kernels.h"

namespace banyan::cuda {

void MultiplyManyCodedExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                                 const ExpertProduct& product, ExpertStart start);
// Forms are spread over files, which compile side by side; each passes on what it does not have.
void MultiplyManyCodedExpertRows4(cudaStream_t stream, const ExpertRoutes& routes,
                                  const ExpertProduct& product, ExpertStart start);
void MultiplyManyCodedExpertRows5(cudaStream_t stream, const ExpertRoutes& routes,
                                  const ExpertProduct& product, ExpertStart start);

}  // namespace banyan::cuda
