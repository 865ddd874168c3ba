// Products of codes in tiles of 256 rows.
#include "kernels/cuda/products/coded_many_rows.cuh"

namespace banyan::cuda::coded_many {

void MultiplyTiles4(cudaStream_t stream, const CodedOperands& operands) {
  LaunchTile<Tile<4, 192>, true>(stream, operands);
}

}  // namespace banyan::cuda::coded_many
