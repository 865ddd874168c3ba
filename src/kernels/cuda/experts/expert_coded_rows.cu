#include "kernels/cuda/experts/expert_coded_rows.cuh"

namespace banyan::cuda {

void MultiplyManyCodedExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                                 const ExpertProduct& product, ExpertStart start) {
  using namespace expert_many;
  switch (product.part.compact) {
    case CompactForm::kQ8_0:
      return Launch<CodedSlabs<CompactForm::kQ8_0>>(stream, routes, product, start);
    case CompactForm::kQ6_K:
      return Launch<CodedSlabs<CompactForm::kQ6_K>>(stream, routes, product, start);
    default:
      return MultiplyManyCodedExpertRows4(stream, routes, product, start);
  }
}

}  // namespace banyan::cuda
