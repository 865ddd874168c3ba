// Products of codes in tiles of 128 rows that warpgroups multiply in turns.
#include "kernels/cuda/products/coded_many_rows.cuh"

namespace banyan::cuda::coded_many {

void MultiplyTilesInTurns(cudaStream_t stream, const CodedOperands& operands) {
  LaunchTile<Tile<2, 128, true>>(stream, operands);
}

}  // namespace banyan::cuda::coded_many
