// What the warps of a team of narrow units (attention_narrow.cuh) share: a ring of half pages and
// one of tasks, which one warp fills (narrow_feeder.cuh) and the others read.
//
// Full barriers say that a place of a ring may be read, empty ones that it may be filled again;
// these are waited for one phase behind, since fresh ones count as empty.
#pragma once

#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/pages/kv_tiles.cuh"

namespace banyan::cuda {

// A block has a multiprocessor to itself and holds four teams, each with its own rings and tasks.
inline constexpr int kNarrowTeams = 4;
inline constexpr int kNarrowWarps = 3;  // of a team, that compute; one more feeds them
inline constexpr int kNarrowComputing = kNarrowWarps * 32;
inline constexpr int kTeamThreads = kNarrowComputing + 32;
inline constexpr int kNarrowThreads = kNarrowTeams * kTeamThreads;
inline constexpr int kMostTeamBytes = kMostSharedBytes / kNarrowTeams / 128 * 128;
inline constexpr int kNarrowTasks = 8;

// A unit for one KV head, and what each of its packed rows needs.
struct NarrowTask {
  WorkUnit unit;
  std::int32_t kv_head;               // -1: there are no more
  std::int32_t rows;                  // packed ones, at most kNarrowRows
  std::int32_t offset[kNarrowRows];   // UnitView::Offset
  std::int32_t partial[kNarrowRows];  // UnitView::Partial
  // Row and head of the step's queries. Rows that are not there have another one's: nobody reads
  // what becomes of them.
  std::int32_t query[kNarrowRows];
};

template <typename Kind, int Dim>
struct alignas(128) NarrowShared {
  // A place holds the keys of a page, or its values with their flags; codes with their scales.
  static constexpr int kPlaceBytes = kValueBytes<Kind, Dim>;
  // Rows of a tile lie in different banks, and a load of 32 values ends in its own row.
  static constexpr int kQueryStride = (Dim + 31) / 32 * 32 * 2 + 16;
  static constexpr int kScoreStride = kCutKeys + 4;
  static constexpr int kOtherBytes =
      kScoreTiles * kTileBytes +
      kNarrowRows * (kQueryStride + kScoreStride * 4 + sizeof(MergeFactors) + 4) +
      kNarrowTasks * (sizeof(NarrowTask) + 16 + 16) + 128;
  // With its two barriers. No more than two cuts fill: shorter heads need less on its way.
  static constexpr int kFitting = (kMostTeamBytes - kOtherBytes) / (kPlaceBytes + 16);
  static constexpr int kPlaces = kFitting < 4 * kPagesPerCut ? kFitting : 4 * kPagesPerCut;
  static_assert(kPlaces >= kPagesPerCut);  // all values of a cut are there at a time where needed

  alignas(128) std::byte weight[kScoreTiles * kTileBytes];  // tiles of 8 rows x 8 keys
  alignas(16) std::byte place[kPlaces][kPlaceBytes];
  alignas(16) std::byte query[kNarrowRows][kQueryStride];  // of one task
  float score[kNarrowRows][kScoreStride];
  MergeFactors factors[kNarrowRows];
  float value_unit[kNarrowRows];  // codes only
  alignas(16) NarrowTask task[kNarrowTasks];
  std::uint64_t full[kPlaces], empty[kPlaces];
  std::uint64_t task_full[kNarrowTasks], task_empty[kNarrowTasks];
  std::uint64_t query_full;
};

#ifdef BANYAN_SM90A

// A place of a ring, and the parity of the phase that its barriers are in.
template <int Places>
struct NarrowPlace {
  int at = 0;
  unsigned parity = 0;

  // The place `count` further on; at most Places.
  __device__ NarrowPlace After(int count) const {
    const int place = at + count;
    return place < Places ? NarrowPlace{place, parity} : NarrowPlace{place - Places, parity ^ 1};
  }
};

// Whether the phase of this parity is complete; does not wait.
__device__ inline bool IsComplete(std::uint64_t& barrier, unsigned parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(SharedAddress(&barrier)), "r"(parity)
      : "memory");
  return done != 0;
}
__device__ inline void ArriveForAll(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
               "r"(arrivals)
               : "memory");
}
// When what this thread asked for with CopyAsync is there; counts as one arrival.
__device__ inline void ArriveAfterCopies(std::uint64_t& barrier) {
  asm volatile(
      "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(SharedAddress(&barrier))
      : "memory");
}

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
