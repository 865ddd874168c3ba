#include "kernels/probe_costs.h"

#include <fmt/format.h>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>
#include <vector>

#include "base/machine_limits.h"
#include "kernels/units/work_units.h"
#include "plan/build.h"
#include "plan/cost.h"

namespace banyan {
namespace {

// Reading and converting grows with the size of heads, computing also with the query heads of a KV
// head.
AttentionCosts HostCosts(const Kernels& kernels, const AttentionShape& shape) {
  constexpr int kTasksPerThread = 4;  // as attention_tasks() counts
  AttentionCosts costs;
  ReadingForm& form = costs.form;
  form.ratio = shape.heads / shape.kv_heads;
  form.kv_heads = shape.kv_heads;
  form.workers =
      std::clamp(kernels.attention_tasks() / kTasksPerThread, 1, std::max(1, UsableProcessors()));
  const double size = shape.head_dim, sizes = size * form.ratio;
  costs[CostTerm::kStep] = 1.8e-6;
  costs[CostTerm::kFewUnit] = 0.25e-6;
  costs[CostTerm::kFewKey] = 0.25e-9 * size + 0.1e-9 * sizes;
  costs[CostTerm::kManyUnit] = 0.25e-6;
  costs[CostTerm::kManyKey] = 0.35e-9 * size;
  costs[CostTerm::kManyPair] = 0.085e-9 * sizes;
  costs[CostTerm::kPartial] = 0.8e-9 * size * shape.heads;
  return costs;
}

AttentionCosts DeviceCosts(const Kernels& kernels, const AttentionShape& shape) {
  AttentionCosts costs;
  ReadingForm& form = costs.form;
  form.ratio = shape.heads / shape.kv_heads;
  form.kv_heads = shape.kv_heads;
  form.workers = kernels.attention_tasks();
  form.launches = true;
  if (const int wide = kernels.JoiningFor(shape).least_rows; wide > 0) {
    form.least_many_rows = wide;
    form.few_tile = kNarrowRows;
    form.many_tile = kWideRows;
    form.few_per_worker = 2;
  } else {  // units of one kind
    form.least_many_rows = 1;
    form.many_tile = kBlockRows;
  }
  // Fitted to 872 times of an H200 (`bench attention`; 32 / 8, 32 / 32 and 16 / 8 heads of 128, 9 /
  // 3 of 64): half of the predictions are within 5 %, nine of ten within 20 %.
  const double size = shape.head_dim / 128.0;
  costs[CostTerm::kStep] = 9.7e-6;
  costs[CostTerm::kManyStart] = 0.1e-6;
  costs[CostTerm::kQueue] = 3.8e-6;
  costs[CostTerm::kList] = 0.315e-6;
  costs[CostTerm::kFewUnit] = 0.5e-6;
  costs[CostTerm::kFewKey] = 12e-9 + 8e-9 * size;
  costs[CostTerm::kManyUnit] = 1.2e-6;
  costs[CostTerm::kManyKey] = 2.4e-9 + 11.5e-9 * size;
  costs[CostTerm::kPartial] = 1.5e-6 * size * shape.heads / 32.0;
  return costs;
}

}  // namespace

AttentionCosts BuiltInCosts(const Kernels& kernels, const AttentionShape& shape) {
  if (kernels.asynchronous()) return DeviceCosts(kernels, shape);
  if (kernels.name().starts_with("cpu")) return HostCosts(kernels, shape);
  return {};
}

namespace {

using Clock = std::chrono::steady_clock;

// `items` items of `rows` rows that all see `keys` keys.
struct ProbeItems {
  int items = 0, rows = 0, keys = 0;
};
struct Probe {
  std::vector<ProbeItems> items;
  bool in_cuts = false;  // each cut is an item
};

// Few and many items, short and long, of one row and of several.
const std::vector<Probe>& HostProbes() {
  static const std::vector<Probe> probes = {
      {{{1, 1, 16}}},         {{{32, 1, 16}}},  {{{32, 1, 128}}},  {{{8, 1, 1024}}},
      {{{8, 1, 1024}}, true}, {{{32, 2, 16}}},  {{{32, 2, 128}}},  {{{8, 2, 1024}}},
      {{{16, 4, 128}}},       {{{4, 4, 1024}}}, {{{16, 16, 128}}}, {{{4, 16, 1024}}},
      {{{4, 16, 1024}}, true}};
  return probes;
}
// Launches count here, and how many units a multiprocessor has.
const std::vector<Probe>& DeviceProbes() {
  static const std::vector<Probe> probes = {
      {{{4, 1, 16}}},
      {{{16, 1, 48}}},
      {{{64, 1, 32}}},
      {{{64, 1, 128}}},
      {{{256, 1, 48}}},
      {{{8, 1, 1024}}},
      {{{32, 1, 512}}},
      {{{4, 1, 1024}}, true},
      {{{4, 1, 4096}}, true},
      {{{1, 24, 128}}},
      {{{8, 24, 128}}},
      {{{64, 24, 128}}},
      {{{16, 24, 1024}}},
      {{{32, 18, 256}}},
      {{{5, 1, 32}, {1, 18, 128}}},
      {{{32, 1, 32}, {2, 18, 48}}},
      {{{64, 1, 32}, {8, 18, 128}}},
      {{{128, 1, 32}, {16, 18, 512}}},
  };
  return probes;
}

constexpr int kMostKeys = 16384;                             // of a probe
constexpr int kMostRows = 64 * 24;                           // the same
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;  // of their KV
constexpr int kLeastRounds = 2, kMostRounds = 24;
constexpr int kDeviceRuns = 4;  // of a round: each begins with a device's empty caches
constexpr double kHostSeconds = 0.3, kDeviceSeconds = 0.15;
// Other processes disturbed a measurement if no second run comes near the fastest; the model does
// not fit if the error of a probe is large.
constexpr double kMostSpread = 1.25, kMostError = 0.4;

// One probe: its plan, and what its runs took.
struct ProbeRun {
  Batch batch;
  AttentionPlan plan;
  std::unique_ptr<StepInputs> step;
  MeasuredReading measured;
  std::vector<double> seconds;
};

double ProcessorSeconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Prober {
 public:
  Prober(Kernels& kernels, const AttentionShape& shape)
      : kernels_(kernels),
        shape_(shape),
        expected_(BuiltInCosts(kernels, shape)),
        form_(expected_.form) {
    shape_.window = 0;
    shape_.rope = kNoRope;
    shape_.sinks = nullptr;
  }

  ProbedCosts Run() {
    const Clock::time_point began = Clock::now();
    MakeMemory();
    const bool device = kernels_.asynchronous();
    for (const Probe& probe : device ? DeviceProbes() : HostProbes()) AddProbe(probe);
    const Clock::time_point start = Clock::now();
    const std::chrono::duration<double> most(device ? kDeviceSeconds : kHostSeconds);
    for (int round = 0; round < kMostRounds; ++round) {
      if (round >= kLeastRounds && Clock::now() - start > most) break;
      for (ProbeRun& probe : probes_) AddTimes(probe);
    }
    ProbedCosts probed = Fit();
    probed.seconds = std::chrono::duration<double>(Clock::now() - began).count();
    return probed;
  }

 private:
  // Pages of keys, then a slot for every row's own key, which is never read.
  void MakeMemory() {
    const KvShape kv_shape{1, shape_.kv_heads, shape_.head_dim};
    const std::int64_t page_bytes = kernels_.KvPageBytes(kv_shape);
    key_pages_ = static_cast<int>(std::clamp<std::int64_t>(
        kMostBytes / page_bytes, kGroupKeys / kPageTokens, kMostKeys / kPageTokens));
    const int pages = key_pages_ + kMostRows / kPageTokens + 1;
    kv_ = kernels_.NewKvMemory(kv_shape, pages);
    qkv_ = kernels_.NewTensor(kMostRows,
                              std::int64_t{shape_.heads + 2 * shape_.kv_heads} * shape_.head_dim);
    out_ = kernels_.NewTensor(kMostRows, std::int64_t{shape_.heads} * shape_.head_dim);
    kernels_.Clear(qkv_);
    FillKeys(pages);
  }

  // Zeros: the time of a sum does not depend on finite terms.
  void FillKeys(int pages) {
    Batch batch;
    for (int page = 0; page < pages; ++page) {
      for (int i = 0; i < kPageTokens; ++i) {
        batch.tokens.push_back(0);
        batch.positions.push_back(0);
        batch.slots.push_back(page * kPageTokens + i);
        if (batch.rows() < kMostRows && (page + 1 < pages || i + 1 < kPageTokens)) continue;
        AttentionPlan nothing;
        nothing.merge_begin.assign(static_cast<size_t>(batch.rows()) + 1, 0);
        const auto step = kernels_.Upload(batch, nothing);
        Tensor rows = qkv_.Prefix(batch.rows());
        kernels_.RotateAndStore(*step, 0, shape_, {}, rows, *kv_);
        batch = {};
      }
    }
  }

  // Rows whose positions follow all keys of their item see every key.
  void AddProbe(const Probe& probe) {
    std::vector<PlanNode> nodes;
    std::vector<std::vector<std::int32_t>> pages;
    ProbeRun run;
    int next_page = 0;
    for (const ProbeItems& items : probe.items) {
      const int fit = key_pages_ * kPageTokens / items.keys;
      for (int item = 0; item < std::min(items.items, fit); ++item) {
        PlanNode& node = nodes.emplace_back();
        node.length = items.keys;
        node.row_begin = run.batch.rows();
        for (int row = 0; row < items.rows; ++row) {
          run.batch.slots.push_back(key_pages_ * kPageTokens + run.batch.rows());
          run.batch.tokens.push_back(0);
          run.batch.positions.push_back(items.keys + row);
        }
        node.row_end = run.batch.rows();
        std::vector<std::int32_t>& of_node = pages.emplace_back();
        for (int key = 0; key < items.keys; key += kPageTokens) {
          of_node.push_back(next_page++ % key_pages_);
        }
      }
    }
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i].pages = pages[i];
    PlanOptions options;
    options.joining = kernels_.JoiningFor(shape_);
    if (probe.in_cuts) options.min_items = std::numeric_limits<int>::max();
    run.plan = BuildPlan(nodes, run.batch.positions, options);
    run.step = kernels_.Upload(run.batch, run.plan);
    run.measured.counts = CountReading(form_, run.plan);
    probes_.push_back(std::move(run));
  }

  void AddTimes(ProbeRun& probe) {
    Tensor qkv = qkv_.Prefix(probe.batch.rows());
    Tensor out = out_.Prefix(probe.batch.rows());
    kernels_.RotateAndStore(*probe.step, 0, shape_, {}, qkv, *kv_);
    const auto attend = [&] { kernels_.Attend(*probe.step, 0, shape_, qkv, *kv_, out); };
    if (kernels_.asynchronous()) {
      for (const double seconds : kernels_.TimeRuns({kDeviceRuns, true}, attend)) {
        probe.seconds.push_back(seconds);
      }
      return;
    }
    const ReadingCounts& counts = probe.measured.counts;
    const std::int64_t tasks = (counts.few_units + counts.many_units) * form_.kv_heads;
    const auto busy = static_cast<double>(std::min<std::int64_t>(form_.workers, tasks));
    const double processor = ProcessorSeconds();
    const Clock::time_point start = Clock::now();
    attend();
    const std::chrono::duration<double> wall = Clock::now() - start;
    probe.seconds.push_back(std::min(wall.count(), (ProcessorSeconds() - processor) / busy));
  }

  ProbedCosts Fit() {
    ProbedCosts probed;
    std::vector<MeasuredReading> measured;
    for (ProbeRun& probe : probes_) {
      std::sort(probe.seconds.begin(), probe.seconds.end());
      // The first run of all warms up; of the rest, the fastest should not be the only fast one.
      probe.measured.seconds = std::max(probe.seconds.front(), 1e-9);
      measured.push_back(probe.measured);
      if (probe.seconds[1] > kMostSpread * probe.measured.seconds) {
        probed.why_not = fmt::format("runs of one probe took {:.1f} and {:.1f} us",
                                     probe.seconds[0] * 1e6, probe.seconds[1] * 1e6);
      }
    }
    probed.costs = FitCosts(expected_, measured);
    probed.worst_error = WorstError(probed.costs, measured);
    if (probed.worst_error > kMostError) {
      probed.why_not = fmt::format("a probe's time differs by {:.0f} % from what the costs say",
                                   probed.worst_error * 100.0);
    }
    probed.trusted = probed.why_not.empty();
    return probed;
  }

  Kernels& kernels_;
  AttentionShape shape_;
  const AttentionCosts expected_;
  const ReadingForm form_;
  int key_pages_ = 0;
  std::shared_ptr<KvMemory> kv_;
  Tensor qkv_, out_;
  std::vector<ProbeRun> probes_;
};

}  // namespace

ProbedCosts ProbeCosts(Kernels& kernels, const AttentionShape& shape) {
  return Prober(kernels, shape).Run();
}

}  // namespace banyan
