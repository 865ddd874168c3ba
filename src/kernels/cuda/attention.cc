#include "kernels/cuda/attention.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cuda/device.h"

namespace banyan::cuda {
namespace {

// The largest head that a wide unit's partial sums fit in registers for.
constexpr int kMostWideDim = 128;
constexpr int kBlocksPerMultiprocessor = 8;
// What one multiprocessor takes, measured on an H200.
constexpr float kMicrosecondsPerCut = 2.2f, kMicrosecondsPerPage = 0.15f;

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
  return capability_major == 9 && sixteen_bits && head_dim <= kMostWideDim && HasHopperKernels()
             ? UnitForm::kWideAndNarrow
             : UnitForm::kBlocks;
}

AttentionStreams::AttentionStreams(cudaStream_t main) : main_(main) {
  int least = 0, greatest = 0;
  Check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "stream");
  // Behind main: narrow units that find no place take one where a block of wide units ends.
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

// How many multiprocessors wide and narrow units get.
struct Shares {
  int wide = 0, narrow = 0;
};

// Wide units wait for the matrix units, narrow ones for memory. Where there are rounds of wide
// units and the narrow ones are long, some multiprocessors are set apart for these, so that both
// end together. Otherwise narrow units follow on all of them: short ones do not wait for memory's
// bandwidth, and gain nothing from more of it.
Shares Divide(int multiprocessors, const AttentionCall& call) {
  const UnitLists& units = call.units;
  Shares shares = {multiprocessors, multiprocessors};
  const bool rounds = units.many_count * call.shape.kv_heads >= 2 * multiprocessors;
  if (units.few_count == 0 || !rounds ||
      units.few_pages < std::int64_t{kPagesOfLongUnit} * units.few_count)
    return shares;
  const float wide = kMicrosecondsPerCut * static_cast<float>(units.many_cuts);
  const float narrow = kMicrosecondsPerPage * static_cast<float>(units.few_pages);
  const float share = narrow / (narrow + wide) * static_cast<float>(multiprocessors);
  shares.narrow =
      std::clamp(static_cast<int>(std::lround(share)), 1, std::max(1, multiprocessors / 2));
  shares.wide = multiprocessors - shares.narrow;
  return shares;
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
  const Shares shares = Divide(multiprocessors, call);
  const cudaStream_t narrow_stream = both ? streams.Fork() : streams.main();
  if (many) {
    f16 ? AttendWideF16(streams.main(), shares.wide, call)
        : AttendWideBF16(streams.main(), shares.wide, call);
  }
  if (few) {
    f16 ? AttendNarrowF16(narrow_stream, shares.narrow, call)
        : AttendNarrowBF16(narrow_stream, shares.narrow, call);
  }
  if (both) streams.Join();
}

}  // namespace banyan::cuda
