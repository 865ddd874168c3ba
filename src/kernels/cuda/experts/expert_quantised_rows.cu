// Products of experts that many rows chose, with quantised weights.
#include "kernels/cuda/experts/expert_many_rows.cuh"

namespace banyan::cuda {

void MultiplyManyQuantisedExpertRows(cudaStream_t stream, const ExpertRoutes& routes,
                                     const ExpertProduct& product, ExpertStart start) {
  using namespace expert_many;
  switch (product.part.quantised) {
    case QuantisedForm::kQ8_0:
      return Launch<QuantisedSlabs<QuantisedForm::kQ8_0>>(stream, routes, product, start);
    case QuantisedForm::kQ6_K:
      return Launch<QuantisedSlabs<QuantisedForm::kQ6_K>>(stream, routes, product, start);
    case QuantisedForm::kQ4_0:
      return Launch<QuantisedSlabs<QuantisedForm::kQ4_0>>(stream, routes, product, start);
    case QuantisedForm::kQ4_K:
      return Launch<QuantisedSlabs<QuantisedForm::kQ4_K>>(stream, routes, product, start);
    case QuantisedForm::kMXFP4:
      return Launch<QuantisedSlabs<QuantisedForm::kMXFP4>>(stream, routes, product, start);
    case QuantisedForm::kQ4_1:
      return Launch<QuantisedSlabs<QuantisedForm::kQ4_1>>(stream, routes, product, start);
    case QuantisedForm::kQ5_K:
      return Launch<QuantisedSlabs<QuantisedForm::kQ5_K>>(stream, routes, product, start);
    case QuantisedForm::kIQ4_NL:
      return Launch<QuantisedSlabs<QuantisedForm::kIQ4_NL>>(stream, routes, product, start);
  }
}

}  // namespace banyan::cuda
