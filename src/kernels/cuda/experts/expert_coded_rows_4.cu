// In a file of its own: it compiles as long as the rest.
#include "kernels/cuda/experts/expert_coded_rows.cuh"

namespace banyan::cuda {

void MultiplyManyCodedExpertRows4(cudaStream_t stream, const ExpertRoutes& routes,
                                  const ExpertProduct& product, ExpertStart start) {
  using namespace expert_many;
  switch (product.part.compact) {
    case CompactForm::kQ4_0:
      return Launch<CodedSlabs<CompactForm::kQ4_0>>(stream, routes, product, start);
    case CompactForm::kQ4_K:
      return Launch<CodedSlabs<CompactForm::kQ4_K>>(stream, routes, product, start);
    case CompactForm::kMXFP4:
      return Launch<CodedSlabs<CompactForm::kMXFP4>>(stream, routes, product, start);
    default:
      return MultiplyManyCodedExpertRows5(stream, routes, product, start);
  }
}

}  // namespace banyan::cuda
