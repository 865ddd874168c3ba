#include "kernels/cuda/attention/attention.h"

#include "kernels/cuda/device/device.h"

namespace banyan::cuda {
namespace {

// The largest head that a wide unit's partial sums fit in registers for.
constexpr int kMostWideDim = 128;
constexpr int kBlocksPerMultiprocessor = 8;

}  // namespace

UnitForm UnitFormFor(int capability_major, KvType type, int head_dim) {
  return capability_major == 9 && type != KvType::kF32 && head_dim <= kMostWideDim &&
                 HasHopperKernels()
             ? UnitForm::kWideAndNarrow
             : UnitForm::kBlocks;
}

namespace {

void AttendBlocks(cudaStream_t stream, int multiprocessors, KvType type,
                  const AttentionCall& call) {
  const int blocks = multiprocessors * kBlocksPerMultiprocessor;
  switch (type) {
    case KvType::kF32:
      return AttendF32(stream, blocks, call);
    case KvType::kF16:
      return AttendF16(stream, blocks, call);
    case KvType::kBF16:
      return AttendBF16(stream, blocks, call);
    case KvType::kQ8:
      return AttendQ8(stream, blocks, call);
  }
}

auto* WideFor(KvType type) {
  if (type == KvType::kQ8) return AttendWideQ8;
  return type == KvType::kF16 ? AttendWideF16 : AttendWideBF16;
}
auto* NarrowFor(KvType type) {
  if (type == KvType::kQ8) return AttendNarrowQ8;
  return type == KvType::kF16 ? AttendNarrowF16 : AttendNarrowBF16;
}

}  // namespace

bool CanFinish(const AttentionCall& call) {
  return call.form == UnitForm::kWideAndNarrow && call.units.has_wide && !call.units.has_narrow &&
         call.shape.head_dim == call.kv.layout.padded_dim && call.kv.layout.element_bytes == 2;
}

void AttendUnits(cudaStream_t stream, int multiprocessors, KvType type, const AttentionCall& call) {
  if (call.form == UnitForm::kBlocks) return AttendBlocks(stream, multiprocessors, type, call);
  const bool wide = call.units.has_wide;
  if (wide) WideFor(type)(stream, multiprocessors, call);
  if (call.units.has_narrow) NarrowFor(type)(stream, multiprocessors, call, wide);
}

}  // namespace banyan::cuda
