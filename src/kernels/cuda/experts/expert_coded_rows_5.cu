// The remaining forms, in a file of their own: it compiles as long as the rest.
#include "kernels/cuda/experts/expert_coded_rows.cuh"

namespace banyan::cuda {

void MultiplyManyCodedExpertRows5(cudaStream_t stream, const ExpertRoutes& routes,
                                  const ExpertProduct& product, ExpertStart start) {
  using namespace expert_many;
  switch (product.part.compact) {
    case CompactForm::kQ4_1:
      return Launch<CodedSlabs<CompactForm::kQ4_1>>(stream, routes, product, start);
    case CompactForm::kQ5_K:
      return Launch<CodedSlabs<CompactForm::kQ5_K>>(stream, routes, product, start);
    default:
      return Launch<CodedSlabs<CompactForm::kIQ4_NL>>(stream, routes, product, start);
  }
}

}  // namespace banyan::cuda
