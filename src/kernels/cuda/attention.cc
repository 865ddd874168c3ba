#include "kernels/cuda/attention.h"

#include "base/error.h"
#include "kernels/cuda/device.h"

namespace banyan::cuda {
namespace {

// The largest head that a wide unit's partial sums fit in registers for.
constexpr int kMostWideDim = 128;
constexpr int kBlocksPerMultiprocessor = 8;

}  // namespace

int PaddedHeadDim(int head_dim, KvType type) {
  if (type == KvType::kF32) return head_dim;
  for (const int size : {32, 64, 80, 96, 128, 256}) {
    if (head_dim <= size) return size;
  }
  Throw(ErrorKind::kUnsupported,
        "device cuda: heads of {} values: expected at most 256 in precision mixed (f32 takes any)",
        head_dim);
}

UnitForm UnitFormFor(int capability_major, KvType type, int head_dim) {
  const bool sixteen_bits = type == KvType::kF16 || type == KvType::kBF16;
  return capability_major == 9 && sixteen_bits && head_dim <= kMostWideDim
             ? UnitForm::kWideAndNarrow
             : UnitForm::kBlocks;
}

AttentionStreams::AttentionStreams(cudaStream_t main) : main_(main) {
  int least = 0, greatest = 0;
  Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream");
  // Behind main: a block of wide units fills its multiprocessor; narrow units follow where one
  // ends.
  Check(cudaStreamCreateWithPriority(&side_, cudaStreamNonBlocking, least), "stream");
  for (cudaEvent_t* event : {&forked_, &joined_}) {
    Check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "event");
  }
}

AttentionStreams::~AttentionStreams() {
  for (cudaEvent_t event : {forked_, joined_}) cudaEventDestroy(event);
  cudaStreamDestroy(side_);
}

cudaStream_t AttentionStreams::Fork() {
  Check(cudaEventRecord(forked_, main_), "event");
  Check(cudaStreamWaitEvent(side_, forked_, 0), "event");
  return side_;
}

void AttentionStreams::Join() {
  Check(cudaEventRecord(joined_, side_), "event");
  Check(cudaStreamWaitEvent(main_, joined_, 0), "event");
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

}  // namespace

void AttendUnits(AttentionStreams& streams, int multiprocessors, KvType type,
                 const AttentionCall& call) {
  const bool many = call.units.many_count > 0, few = call.units.few_count > 0;
  if (call.form == UnitForm::kBlocks) {
    if (many) AttendBlocks(streams.main(), multiprocessors, type, call);
    return;
  }
  const bool f16 = type == KvType::kF16;
  const bool both = many && few;
  const cudaStream_t narrow_stream = both ? streams.Fork() : streams.main();
  if (many) {
    f16 ? AttendWideF16(streams.main(), multiprocessors, call)
        : AttendWideBF16(streams.main(), multiprocessors, call);
  }
  if (few) {
    f16 ? AttendNarrowF16(narrow_stream, multiprocessors, call)
        : AttendNarrowBF16(narrow_stream, multiprocessors, call);
  }
  if (both) streams.Join();
}

}  // namespace banyan::cuda
