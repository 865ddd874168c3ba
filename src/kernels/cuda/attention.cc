#include "kernels/cuda/attention.h"

#include "base/error.h"

namespace banyan::cuda {

int PaddedHeadDim(int head_dim, KvType type) {
  if (type == KvType::kF32) return head_dim;
  for (const int size : {32, 64, 96, 128, 256}) {
    if (head_dim <= size) return size;
  }
  Throw(ErrorKind::kUnsupported,
        "device cuda: heads of {} values: expected at most 256 in precision mixed (f32 takes any)",
        head_dim);
}

void AttendUnits(cudaStream_t stream, KvType type, const AttentionCall& call) {
  if (call.unit_count == 0) return;
  switch (type) {
    case KvType::kF32:
      return AttendF32(stream, call);
    case KvType::kF16:
      return AttendF16(stream, call);
    case KvType::kBF16:
      return AttendBF16(stream, call);
    case KvType::kQ8:
      return AttendQ8(stream, call);
  }
}

}  // namespace banyan::cuda
