// The producer warp of a team of narrow units (attention_narrow.cu), and what the team has in
// shared memory: a ring of half pages and one of tasks, which the producer fills and the others
// read.
//
// Full barriers say that a place of a ring may be read, empty ones that it may be filled again;
// these are waited for one phase behind, since fresh ones count as empty.
#pragma once

#include "kernels/cuda/attention/softmax.cuh"
#include "kernels/cuda/attention/unit.cuh"
#include "kernels/cuda/device/hopper.cuh"
#include "kernels/cuda/device/launch.cuh"
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
  // Row and head of the step's queries. Rows that are not there have another row's; their
  // results are not read.
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
  // With its two barriers. No more than two cuts fill: shorter heads need less in flight.
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

// The warp that draws tasks and copies their pages, as far ahead of the warps that compute as the
// rings reach.
//
// Half pages go through their ring without a gap: of every cut the keys, page by page, then the
// values, then those of the next cut or task.
template <typename Kind, int Dim>
class NarrowFeeder {
 public:
  using Shared = NarrowShared<Kind, Dim>;

  __device__ NarrowFeeder(const AttentionCall& call, Shared& shared, bool after_wide)
      : call_(call),
        shared_(shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        after_wide_(after_wide),
        given_(GivenTasks(*call.units.counts)),
        tasks_(call.units.counts->narrow * call.shape.kv_heads),
        read_once_(call.units.counts->reads_again == 0) {}

  // At any time one task's pages are being sent, the first pages of the next are being looked up,
  // the unit of the one after it is being loaded, and the one after that is being drawn.
  __device__ void Run() {
    int task = First();
    int4 unit = LoadUnit(task);
    if (!after_wide_) WaitForEarlierKernels();
    int drawn = Draw(task);
    int at = next_task_.at;
    std::int32_t page = Open(unit, task);
    int next = Everyone(drawn);
    unit = LoadUnit(next);
    drawn = Draw(next);
    while (task < tasks_) {
      const int coming = Everyone(drawn);
      const int next_at = next_task_.at;
      const std::int32_t next_page = Open(unit, next);
      unit = LoadUnit(coming);
      drawn = Draw(coming);
      Feed(shared_.task[at], page);
      at = next_at;
      page = next_page;
      task = next;
      next = coming;
    }
  }

 private:
  static constexpr unsigned kAllLanes = 0xffffffffu;

  __device__ static int Everyone(int of_lane_0) { return __shfl_sync(kAllLanes, of_lane_0, 0); }

  // --- Tasks ------------------------------------------------------------------------------------
  // Tasks that go to teams by their places, a few going to as many multiprocessors. None where some
  // blocks begin before the others.
  __device__ static int GivenTasks(const UnitCounts& counts) {
    const auto blocks = static_cast<int>(gridDim.x);
    const bool together = counts.wide_blocks == 0 || counts.wide_blocks == blocks;
    return together ? blocks * kNarrowTeams : 0;
  }
  __device__ int First() const {
    if (given_ == 0) return Everyone(Draw(0));
    const int team = static_cast<int>(threadIdx.x) / kTeamThreads;
    return team * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
  }
  // In lane 0; nothing is drawn after a task that is not there.
  __device__ int Draw(int before) const {
    if (lane_ != 0 || before >= tasks_) return tasks_;
    return given_ + atomicAdd(&call_.next_unit[1], 1);
  }
  // The lane's part of the task's unit.
  __device__ int4 LoadUnit(int task) const {
    if (task >= tasks_ || lane_ >= 3) return {};
    return reinterpret_cast<const int4*>(call_.units.few_rows + task / call_.shape.kv_heads)[lane_];
  }
  // Passes a task on, and asks for the pages of its first cut.
  __device__ __forceinline__ std::int32_t Open(int4 unit, int number) {
    const NarrowPlace<kNarrowTasks> place = next_task_;
    next_task_ = place.After(1);
    NarrowTask& task = shared_.task[place.at];
    Wait(shared_.task_empty[place.at], place.parity ^ 1);
    if (lane_ < 3) reinterpret_cast<int4*>(&task.unit)[lane_] = unit;
    const int kv_head = number < tasks_ ? number % call_.shape.kv_heads : -1;
    if (lane_ == 0) task.kv_head = kv_head;
    __syncwarp();
    std::int32_t page = 0;
    if (kv_head >= 0) {
      const UnitView view(call_, task.unit, kv_head);
      page = PageOfLane(view, view.Cuts().begin);
      if (lane_ < kNarrowRows) DescribeRow(view, task);
      __syncwarp();
    }
    if (lane_ == 0) Arrive(shared_.task_full[place.at]);
    return page;
  }
  // The lane's packed row.
  __device__ void DescribeRow(const UnitView& view, NarrowTask& task) const {
    const WorkUnit& unit = task.unit;
    const int rows = view.rows_left(), known = min(lane_, rows - 1);
    if (lane_ == 0) task.rows = min(rows, kNarrowRows);
    const bool one_offset = unit.lowest_offset == unit.highest_offset;
    task.offset[lane_] = one_offset ? (lane_ < rows ? unit.lowest_offset : -1) : view.Offset(lane_);
    task.partial[lane_] = static_cast<std::int32_t>(view.Partial(lane_));
    task.query[lane_] = view.Row(known) * call_.shape.heads + view.Head(known);
  }

  // --- Pages ------------------------------------------------------------------------------------
  // Lanes 0 to 7 have the keys of a cut's pages, lanes 8 to 15 the values.
  __device__ int LanePage() const { return lane_ % kPagesPerCut; }
  __device__ bool LaneHasValues() const { return lane_ >= kPagesPerCut; }
  __device__ bool LaneHas(int pages) const {
    return lane_ < 2 * kPagesPerCut && LanePage() < pages;
  }

  // The number of the lane's page of the cut.
  __device__ std::int32_t PageOfLane(const UnitView& unit, int begin) const {
    if (begin >= unit.key_end() || !LaneHas(unit.Pages(begin))) return 0;
    return unit.Page(begin + LanePage() * kPageTokens);
  }
  // `page`: of the first cut. Those of the next are asked for before the one at hand is sent.
  __device__ void Feed(const NarrowTask& task, std::int32_t page) {
    const UnitView unit(call_, task.unit, task.kv_head);
    const CutRange cuts = unit.Cuts();
    for (int begin = cuts.begin; begin < cuts.end; begin += kCutKeys) {
      const int next = begin + kCutKeys;
      const std::int32_t next_page = next < cuts.end ? PageOfLane(unit, next) : 0;
      Send(unit.Block(page), unit.Pages(begin));
      page = next_page;
    }
  }
  // Each half page as soon as its place is free.
  __device__ void Send(const std::byte* block, int pages) {
    using Place = NarrowPlace<Shared::kPlaces>;
    const Place first_values = next_place_.After(pages);
    Place place = next_place_.After(LanePage());
    if (LaneHasValues()) place = first_values.After(LanePage());
    const int number = (LaneHasValues() ? pages : 0) + LanePage();  // in the cut
    const int bytes = LaneHasValues() ? kValueBytes<Kind, Dim> : kKeyBytes<Kind, Dim>;
    bool waits = LaneHas(pages);
    for (unsigned waiting; (waiting = __ballot_sync(kAllLanes, waits)) != 0;) {
      const int first = __ffs(static_cast<int>(waiting)) - 1;
      Wait(shared_.empty[__shfl_sync(kAllLanes, place.at, first)],
           __shfl_sync(kAllLanes, place.parity, first) ^ 1);
      // Of two lanes that take the same place only the first can tell by the phase.
      const bool is_next = number < __shfl_sync(kAllLanes, number, first) + Shared::kPlaces;
      if (waits && is_next && IsComplete(shared_.empty[place.at], place.parity ^ 1)) {
        ArriveExpecting(shared_.full[place.at], bytes);
        Copy(shared_.place[place.at], block + (LaneHasValues() ? kKeyBytes<Kind, Dim> : 0), bytes,
             shared_.full[place.at]);
        waits = false;
      }
    }
    next_place_ = first_values.After(pages);
  }

  // Keys that only one item reads need not stay in the cache. (Others come without any policy: one
  // that says evict_normal made them slower than evict_first did.)
  __device__ void Copy(void* shared, const std::byte* from, int bytes, std::uint64_t& full) const {
    if (read_once_) {
      CopyBulk(shared, from, bytes, full, DropFirst());
    } else {
      CopyBulk(shared, from, bytes, full);
    }
  }

  const AttentionCall& call_;
  Shared& shared_;
  const int lane_;
  const bool after_wide_;
  const int given_;
  const int tasks_;
  const bool read_once_;
  NarrowPlace<kNarrowTasks> next_task_;
  NarrowPlace<Shared::kPlaces> next_place_;
};

#endif  // BANYAN_SM90A

}  // namespace banyan::cuda
