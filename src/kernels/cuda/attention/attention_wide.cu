// Wide units on Hopper: 128 packed rows, two groups (warpgroups) of 64, over the keys of one KV
// head. Producer warps load tasks, queries and pages ahead of them (wide_feed.cuh).
//
// The groups alternate at the matrix units (ping-pong). In its turn a group multiplies the weights
// of a cut with the values and asks for the products of the queries with the next cut's keys; while
// the other has its turn, it computes the weights of that next cut. Blocks stay and take task after
// task.
//
// Scores: chains over the head in steps of 16. Values: chains over the cut's keys in steps of 16,
// from zero; then merged into the running partial of the group of cuts, in registers. Both are bit
// for bit what the chains of mma.sync in the other kernels give. In a unit of several groups of
// cuts each of these but the last is merged into shared memory at its end (wide_store.cuh).
//
// "Group" alone means a warpgroup here, "key group" a group of cuts (plan/attention_plan.h).
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/attention/wide_feed.cuh"
#include "kernels/cuda/attention/wide_store.cuh"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/wgmma.cuh"

namespace banyan::cuda {
namespace {

constexpr int kWideThreads = kWideConsumers + 128;
// All warps start with a third of a quarter of the registers; then the group that feeds gives most
// of its share to the others, less where it has codes to unpack. 2 * 224 + 56 = 3 * 168, and so is
// 2 * 216 + 72.
template <typename Kind>
constexpr int kFeederRegisters = Kind::kInt8 ? 72 : 56;
template <typename Kind>
constexpr int kConsumerRegisters = Kind::kInt8 ? 216 : 224;

#ifdef BANYAN_SM90A

// Turns at the matrix units. Both groups take the same number, alternately.
__device__ void TakeTurn(int group) { SyncSome(2 + group, kWideConsumers); }
__device__ void PassTurn(int group) { ArriveSome(3 - group, kWideConsumers); }

// A branch that is never taken (cuts begin at 0 or later). The compiler would issue first what
// waits for nothing, and wait for products before anything that could be done meanwhile; but it
// keeps what stands on one side of a branch there, and computes `value` before it. Products may
// be in flight: those on both sides read nothing that is written between them, or the compiler
// would say that it serialises them (C7510 and the like).
__device__ void KeepOrder(int begin, float value) {
  if (begin < 0) asm volatile("brkpt;" ::"f"(value) : "memory");
}

// The two rows of a lane, each times its factor.
template <int Tiles>
__device__ void ScaleTiles(const float (&factor)[2], float (&sum)[Tiles][4]) {
#pragma unroll
  for (int n = 0; n < Tiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[n][i] *= factor[i / 2];
  }
}

// One of the eight warps that compute.
template <typename Kind, int Dim>
class WideConsumer {
 public:
  using Element = typename Kind::Element;
  using Shared = WideShared<Kind, Dim>;
  __device__ WideConsumer(const AttentionCall& call, Shared& shared)
      : call_(call),
        shared_(shared),
        group_(__shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0)),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        careful_(!Kind::kInt8 && *call.kv.any_flag != 0),
        kv_chunk_(shared.kv_chunk[warp_]) {}

  __device__ void Run() {
    if (group_ == 1) PassTurn(group_);
    for (;; ++task_) {
      WaitFull(shared_.task_full, task_);
      if (Task().kv_head < 0) break;
      if (task_ == 0) LoadOwnQueries();
      WaitFull(shared_.query_full[group_], task_);
      WaitFull(shared_.rows_full, task_);
      BeginTask();
      if (Task().rows <= group_ * 64) {
        ArriveAsWarp(shared_.query_empty[group_], task_);
        Follow();
      } else {
        Attend();
      }
      ArriveAsWarp(shared_.task_empty, task_);
    }
    WideStore<Dim>::Await();
    if (group_ == 0) TakeTurn(group_);  // the one that the other group passed last
  }

 private:
  // --- Tasks ------------------------------------------------------------------------------------
  __device__ const WideTask& Task() const { return shared_.task[PlaceOf<Shared::kTasks>(task_)]; }
  // Of the unit: the lane's two rows.
  __device__ int PackedRow(int half) const { return warp_ * 16 + lane_ / 4 + 8 * half; }

  // The group's warps meet when they take their turn.
  __device__ void LoadOwnQueries() {
    AskForQueries<Dim, 1>(UnitView(call_, Task().unit, Task().kv_head), Task(), warp_ * 16,
                          shared_.query);
    AwaitQueries();
  }
  // What is asked for in every cut comes into registers: shared memory would answer too late.
  __device__ void BeginTask() {
    const WideTask& task = Task();
    begin_ = task.cuts.begin;
    end_ = task.cuts.end;
    whole_ = task.whole;
    const int key_begin = task.unit.key_begin;
    next_key_group_ = begin_ + kGroupKeys - (begin_ - key_begin) % kGroupKeys;
  }
  __device__ bool LastCut() const { return begin_ + kCutKeys >= end_; }

  __device__ void Attend() {
    kv_chunk_.Clear();
    ClearTotal();
    float score[kScoreTiles][4], sum[Dim / 8][4];
    std::uint32_t weight[kPagesPerCut][4];
    WaitForKeys();
    TakeTurn(group_);
    BeginScores(score);
    EndScores(score);
    PassTurn(group_);
    for (;;) {
      if (LastCut()) ArriveAsWarp(shared_.query_empty[group_], task_);  // the last scores are there
      Weigh(score, weight);
      AddCut(cut_, rows_);
      WaitForValues();
      if (!LastCut()) WaitForKeys();
      TakeTurn(group_);
      AddValues(weight, sum);
      if (LastCut()) break;
      BeginScores(score);
      PassTurn(group_);
      KeepOrder(begin_, sum[0][0]);
      if constexpr (Kind::kInt8) ScaleTiles(value_unit_, sum);
      MergeTiles(rows_, sum, 0, total_);
      KeepOrder(begin_, total_[Dim / 8 - 1][3]);
      EndScores(score);
      begin_ += kCutKeys;
      if (begin_ == next_key_group_) [[unlikely]] {
        if (!kv_chunk_.holds_some()) WideStore<Dim>::Await();
        kv_chunk_.Add(rows_, total_);
        next_key_group_ += kGroupKeys;
        ClearTotal();
      }
    }
    PassTurn(group_);
    if constexpr (Kind::kInt8) ScaleTiles(value_unit_, sum);
    MergeTiles(rows_, sum, 0, total_);
    if (kv_chunk_.holds_some()) [[unlikely]]
      kv_chunk_.Close(rows_, total_);
    Store();
  }
  // Staged in the place of the KV chunk.
  __device__ void Store() {
    static_assert(WideStore<Dim>::kStagedFloats <= Dim / 8 * 32 * 4);
    const UnitView unit(call_, Task().unit, Task().kv_head);
    const auto partial = static_cast<int>(unit.Partial(warp_ * 16 + lane_ % 16));
    WideStore<Dim>::Await();
    const WideStore<Dim> store(call_, partial,
                               reinterpret_cast<std::byte*>(&shared_.kv_chunk[warp_][0][0]));
    if (Kind::kInt8 || !call_.finishes) return store.Store(rows_, total_);
    Finish(unit);
    const int row = warp_ * 16 + lane_ % 16;
    const std::int64_t at = unit.Row(row) * call_.out_stride + unit.Head(row) * Dim;
    if (call_.out.bf16 != nullptr) {
      store.StoreWhole(total_, call_.out.bf16 + at);
    } else {
      store.StoreWhole(total_, call_.out.float32 + at);
    }
  }
  // Rows without another partial: `total_` becomes the result, as the merge would have it.
  __device__ void Finish(const UnitView& unit) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      RunningRow& row = rows_[half];
      if (call_.sinks != nullptr) {
        const float sink = call_.sinks[unit.Head(PackedRow(half))];
        row.factors = PrepareMerge(row.max, row.sum, __fmul_rn(sink, kLog2E), 1.0f);
      }
      const float inverse = row.sum == 0.0f ? 0.0f : 1.0f / row.sum;
#pragma unroll
      for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          float& value = total_[n][i];
          if (call_.sinks != nullptr) value = MergeValue(row.factors, value, 0.0f);
          value = row.sum == 0.0f ? 0.0f : __fmul_rn(value, inverse) + 0.0f;
        }
      }
    }
  }
  // The turns of a group without rows.
  __device__ void Follow() {
    TakeTurn(group_);
    PassTurn(group_);
    for (;; begin_ += kCutKeys) {
      WaitFull(shared_.key_full, scored_);
      ArriveAsWarp(shared_.key_empty, scored_++);
      if constexpr (Kind::kInt8) {
        WaitFull(shared_.scale_full, scored_ - 1);
        ArriveAsWarp(shared_.scale_empty, scored_ - 1);
      }
      WaitFull(shared_.value_full, scored_ - 1);
      if (AnyUnruly()) HideUnrulyValues();
      TakeTurn(group_);
      PassTurn(group_);
      ArriveAsWarp(shared_.value_empty, scored_ - 1);
      if (LastCut()) return;
    }
  }

  // --- A cut ------------------------------------------------------------------------------------
  __device__ void WaitForKeys() { WaitFull(shared_.key_full, scored_); }
  __device__ void BeginScores(float (&score)[kScoreTiles][4]) const {
    constexpr int kAcrossRows = Dim / 8 * kTileBytes;
    const TileOperand query(shared_.query + group_ * 64 * Dim * 2, kTileBytes, kAcrossRows);
    const TileOperand key(shared_.key[PlaceOf<kWideStages>(scored_)], kTileBytes, kAcrossRows);
    FenceProducts();
    FirstScoreProduct(score, query.At(0), key.At(0), Element{});
#pragma unroll
    for (int k = 1; k < Dim / 16; ++k) {
      NextScoreProduct(score, query.At(k * 2 * kTileBytes), key.At(k * 2 * kTileBytes), Element{});
    }
    CommitProducts();
  }
  __device__ void EndScores(float (&score)[kScoreTiles][4]) {
    WaitForProducts();
    Pin(score);
    ArriveAsWarp(shared_.key_empty, scored_++);
  }

  // The special function unit is what there is least of: the second row's maximum is found in the
  // shadow of the first row's powers.
  __device__ void Weigh(float (&score)[kScoreTiles][4], std::uint32_t (&weight)[kPagesPerCut][4]) {
    if constexpr (Kind::kInt8) return WeighCodes(score, weight);
    bool sees[2] = {true, true};
    if (!whole_.Holds(begin_)) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const VisibleKeys seen = Seen(half);
        sees[half] = seen.first < seen.last;
        HideScores(seen, half, score);
      }
    }
    cut_[0].largest = LargestScore(score, 0);
    KeepOrder(begin_, cut_[0].largest);
    cut_[0].sum = WeighRow(0, sees[0] ? cut_[0].largest : 0.0f, score);
    cut_[1].largest = LargestScore(score, 1);
    KeepOrder(begin_, cut_[0].sum + cut_[1].largest);
    PackRow<Element>(0, score, weight);
    cut_[1].sum = WeighRow(1, sees[1] ? cut_[1].largest : 0.0f, score);
    PackRow<Element>(1, score, weight);
  }
  // The same with the scales of codes.
  __device__ void WeighCodes(float (&score)[kScoreTiles][4],
                             std::uint32_t (&weight)[kPagesPerCut][4]) {
    WaitFull(shared_.scale_full, scored_ - 1);
    const WideScales& scales = shared_.scales;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
      const float2 two = *reinterpret_cast<const float2*>(&scales.key[KeyOfScore(n, 0)]);
      score[n][0] *= two.x;
      score[n][1] *= two.y;
      score[n][2] *= two.x;
      score[n][3] *= two.y;
    }
    if (whole_.Holds(begin_)) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        cut_[half].largest = LargestScore(score, half);
        cut_[half].sum = WeighRow(half, cut_[half].largest, score);
        value_unit_[half] = scales.unit;
      }
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n) {
        const float2 two = *reinterpret_cast<const float2*>(&scales.ratio[KeyOfScore(n, 0)]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          weight[n / 2][n % 2 * 2 + half] =
              PackPair(score[n][2 * half] * two.x, score[n][2 * half + 1] * two.y, Element{});
        }
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) WeighSomeCodes(half, score, weight);
    }
    ArriveAsWarp(shared_.scale_empty, scored_ - 1);
  }
  // A row that may not see all keys of the cut.
  __device__ void WeighSomeCodes(int half, float (&score)[kScoreTiles][4],
                                 std::uint32_t (&weight)[kPagesPerCut][4]) {
    const WideScales& scales = shared_.scales;
    const VisibleKeys seen = Seen(half);
    const auto visible = [&](int key) { return key >= seen.first && key < seen.last; };
    HideScores(seen, half, score);
    float unit = 0.0f;
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = KeyOfScore(n, i);
        if (visible(key)) unit = fmaxf(unit, scales.value[key]);
      }
    }
    value_unit_[half] = QuadMax(unit);
    const float inverse_unit = InverseUnit(value_unit_[half]);
    cut_[half].largest = LargestScore(score, half);
    const bool sees = seen.first < seen.last;
    cut_[half].sum = WeighRow(half, sees ? cut_[half].largest : 0.0f, score);
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n) {
      float value[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = KeyOfScore(n, i);
        value[i] =
            visible(key) ? score[n][2 * half + i] * (scales.value[key] * inverse_unit) : 0.0f;
      }
      weight[n / 2][n % 2 * 2 + half] = PackPair(value[0], value[1], Element{});
    }
  }
  __device__ VisibleKeys Seen(int half) const {
    const WideTask& task = Task();
    const int end = min(begin_ + kCutKeys, task.unit.key_end);
    const VisibleKeys seen =
        KeysSeen(task.offset[PackedRow(half)], call_.shape.window, begin_, end);
    return {seen.first - begin_, seen.last - begin_};
  }

  __device__ void WaitForValues() {
    WaitFull(shared_.value_full, scored_ - 1);
    if (AnyUnruly()) {
      HideUnrulyValues();
      BreakRowsThatSeeThem();
    }
  }
  // The values of the cut are then in `sum`, to be merged with the factors in rows_.
  __device__ void AddValues(const std::uint32_t (&weight)[kPagesPerCut][4],
                            float (&sum)[Dim / 8][4]) {
    const TileOperand value(Values(), Dim / 8 * kTileBytes, kTileBytes);
    FenceProducts();
    FirstValueProduct(sum, weight[0], value.At(0), Element{});
#pragma unroll
    for (int page = 1; page < kPagesPerCut; ++page) {
      NextValueProduct(sum, weight[page], value.At(page * Shared::kValueSlot), Element{});
    }
    CommitProducts();
    WaitForProducts();
    Pin(sum);
    ArriveAsWarp(shared_.value_empty, scored_ - 1);
  }

  __device__ std::byte (&Values() const)[kPagesPerCut][Shared::kValueSlot] {
    return shared_.value[PlaceOf<kWideStages>(scored_ - 1)];
  }

  // --- Values that must not meet rows which do not see them (kv_pages.h) ------------------------
  // Whether some token of the cut's pages is marked; the same for every warp.
  __device__ bool AnyUnruly() const {
    if (!careful_) return false;
    const std::byte* flags = Values()[lane_ / 4] + kPageBytes<Dim>;
    const auto word = *reinterpret_cast<const std::uint32_t*>(flags + lane_ % 4 * 4);
    return __any_sync(0xffffffffu, word != 0);
  }

  // Each of the eight warps clears the marked tokens of a page. The flags stay.
  __device__ void HideUnrulyValues() {
    std::byte* page = Values()[warp_];
    if (lane_ < kPageTokens && page[kPageBytes<Dim> + lane_] != std::byte{0}) {
      ClearToken<Dim>(page, lane_);
    }
    PublishToMatrixUnits();
    SyncSome(1, kWideConsumers);
  }

  __device__ void BreakRowsThatSeeThem() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const VisibleKeys seen = Seen(half);
      for (int key = seen.first; key < seen.last; ++key) {
        const std::byte* page = Values()[key / kPageTokens];
        if (page[kPageBytes<Dim> + key % kPageTokens] != std::byte{0}) rows_[half].sum = NAN;
      }
    }
  }

  __device__ void ClearTotal() {
#pragma unroll
    for (int half = 0; half < 2; ++half) rows_[half] = RunningRow();
#pragma unroll
    for (int n = 0; n < Dim / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total_[n][i] = 0.0f;
    }
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int group_, warp_, lane_;
  const bool careful_;  // look for flags
  unsigned task_ = 0;   // number of the task
  // Cuts whose scores are there; the values of the last one are not yet added.
  unsigned scored_ = 0;
  int begin_ = 0;  // of the cut at hand
  // Of the task: see WideTask::cuts and whole; and where its next key group begins.
  int end_ = 0, next_key_group_ = 0;
  CutRange whole_;
  // Of the lane's two rows: the cut at hand, and its key group up to it.
  CutOfRow cut_[2];
  RunningRow rows_[2];
  float value_unit_[2];  // codes: what the sums of the cut's values are in
  float total_[Dim / 8][4];
  WideKvChunk<Dim> kv_chunk_;  // the key groups before that
};

#endif  // BANYAN_SM90A

template <typename Kind, int Dim>
__global__ void __launch_bounds__(kWideThreads, 1)
    AttendWideKernel(const __grid_constant__ AttentionCall call) {
#ifdef BANYAN_SM90A
  if (static_cast<int>(blockIdx.x) >= call.units.counts->wide_blocks) return;
  extern __shared__ __align__(128) std::byte memory[];
  auto& shared = *reinterpret_cast<WideShared<Kind, Dim>*>(memory);
  if (threadIdx.x == 0) InitBarriers(shared);
  __syncthreads();
  if (threadIdx.x >= kWideConsumers) {
    GiveRegisters<kFeederRegisters<Kind>>();
    const int feeder = static_cast<int>(threadIdx.x) / 32 - kWideConsumerWarps;
    if (feeder == 0) OpenTasks<Kind, Dim>(call, shared);
    if (feeder == 1) LoadPages<Kind, Dim>(call, shared);
    if constexpr (Kind::kInt8) {
      if (feeder >= 2) CodeLoader<Kind, Dim>(call, shared, feeder - 2).Run();
    } else {
      if (feeder >= 2) LoadGroupQueries<Kind, Dim>(call, shared, feeder - 2);
    }
  } else {
    TakeRegisters<kConsumerRegisters<Kind>>();
    WaitForEarlierKernels();
    LetNextKernelStart();  // which then need not wait for what this one waited for
    WideConsumer<Kind, Dim>(call, shared).Run();
  }
#endif
}

template <typename Kind, int Dim>
void LaunchWide(cudaStream_t stream, int blocks, const AttentionCall& call) {
  constexpr int kBytes = static_cast<int>(sizeof(WideShared<Kind, Dim>));
  RaiseSharedMemory<AttendWideKernel<Kind, Dim>>(kBytes);
  const LaunchShape shape{dim3(static_cast<unsigned>(blocks)), kWideThreads, kBytes};
  LaunchEarly(stream, shape, "attention of wide units", AttendWideKernel<Kind, Dim>, call);
}

template <typename Kind>
void AttendKind(cudaStream_t stream, int blocks, const AttentionCall& call) {
  ForHeadDim<32, 64, 80, 96, 128>(call.kv.layout.padded_dim, [&](auto dim) {
    LaunchWide<Kind, decltype(dim)::value>(stream, blocks, call);
  });
}

}  // namespace

void AttendWide(cudaStream_t stream, int blocks, KvType type, const AttentionCall& call) {
  if (type == KvType::kQ8) return AttendKind<KvKind<__half, true>>(stream, blocks, call);
  if (type == KvType::kF16) return AttendKind<KvKind<__half, false>>(stream, blocks, call);
  AttendKind<KvKind<__nv_bfloat16, false>>(stream, blocks, call);
}

}  // namespace banyan::cuda
