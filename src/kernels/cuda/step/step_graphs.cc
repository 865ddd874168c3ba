// Recording and replay of steps (step_graphs.h).
#include "kernels/cuda/step/step_graphs.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/pages/kv_pages.h"

namespace banyan::cuda {
namespace {

// Larger steps take so long that gaps between launches do not count.
constexpr int kMostRows = 1024;
constexpr int kMostGraphs = 32;    // some hundred launches each
constexpr size_t kMostSeen = 512;  // shapes

const DeviceStep& OnDevice(const RecordedStep& step) {
  return static_cast<const DeviceStep&>(*step.step);
}

const void* StatesOf(const RecordedStep& step) {
  return step.states == nullptr ? nullptr : static_cast<const DeviceStates&>(*step.states).data();
}

}  // namespace

StepGraphs::~StepGraphs() {
  cudaStreamSynchronize(first().stream);
  for (auto& [key, recorded] : seen_) {
    if (recorded.graph != nullptr) cudaGraphExecDestroy(recorded.graph);
  }
}

// Steps with a parallel context are rare, and their launches have its numbers. Where there may be
// no room for the partials, the operations make it, and the key changes.
bool StepGraphs::CanReplay(std::span<const RecordedStep> steps) const {
  for (size_t i = 0; i < steps.size(); ++i) {
    const DeviceStep& step = OnDevice(steps[i]);
    const PartialMemory& partials = *sources_[i].partials;
    if (step.rows > kMostRows || step.context.pages > 0 ||
        !partials.Holds(step.partials, partials.partial_bytes())) {
      return false;
    }
  }
  return true;
}

bool StepGraphs::MaySettle() const {
  return std::ranges::any_of(sources_, [](const Source& s) { return s.products->MaySettle(); });
}

std::int64_t StepGraphs::Guesses() const {
  std::int64_t launches = 0;
  for (const Source& source : sources_) launches += source.products->launches();
  return launches;
}

void StepGraphs::Run(std::span<const RecordedStep> steps, int variant,
                     const std::function<void()>& operations) {
  BANYAN_CHECK(steps.size() == sources_.size());
  if (!CanReplay(steps)) return operations();
  Key key{variant, steps.front().step->rows, steps.front().step->logit_rows, {}};
  for (size_t i = 0; i < steps.size(); ++i) {
    const PartialMemory& partials = *sources_[i].partials;
    key.devices.push_back({OnDevice(steps[i]).layout(),
                           static_cast<const KvPages&>(*steps[i].kv).data(), StatesOf(steps[i]),
                           partials.data(), partials.queries(), partials.bytes()});
  }
  const auto [it, first_time] = seen_.try_emplace(std::move(key));
  Recorded& recorded = it->second;
  recorded.used = ++clock_;
  if (first_time) {
    operations();
    return ForgetOldest();
  }
  if (recorded.graph != nullptr && recorded.unsettled && MaySettle()) {
    first().Synchronize();
    Forget(recorded);
    return operations();
  }
  if (recorded.refused || (recorded.graph == nullptr && !Record(recorded, operations))) {
    return operations();
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!sources_[i].partials->Holds(OnDevice(steps[i]).partials, recorded.partial_bytes[i])) {
      return operations();
    }
  }
  first().Enter();
  Check(cudaGraphLaunch(recorded.graph, first().stream), "launch of a recorded step");
  recorded.on_host.Repeat();
}

// False when the operations cannot be recorded. They have not been run in either case.
bool StepGraphs::Record(Recorded& recorded, const std::function<void()>& operations) {
  const std::int64_t guesses = Guesses();
  const cudaGraph_t graph = Capture(operations, recorded.on_host);
  recorded.unsettled = Guesses() != guesses;
  // With the priorities of the streams: attention depends on them.
  if (graph == nullptr ||
      cudaGraphInstantiate(&recorded.graph, graph, cudaGraphInstantiateFlagUseNodePriority) !=
          cudaSuccess) {
    recorded.graph = nullptr;
    recorded.refused = true;
  } else {
    recorded.partial_bytes.clear();
    for (const Source& source : sources_) {
      recorded.partial_bytes.push_back(source.partials->partial_bytes());
    }
    ++graphs_;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // why it was refused does not matter to what comes next
  return !recorded.refused;
}

// Null when something among the operations cannot be recorded.
cudaGraph_t StepGraphs::Capture(const std::function<void()>& operations, Recording& on_host) {
  const std::span<const Source> others = std::span(sources_).subspan(1);
  first().Enter();
  if (cudaStreamBeginCapture(first().stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
    return nullptr;
  }
  for (const Source& source : sources_) source.device->recording = &on_host;
  bool complete = true;
  const auto attempt = [&](const auto& calls) {
    try {
      calls();
    } catch (const Error&) {
      complete = false;  // where this is no matter of recording, running them will say so
    }
  };
  attempt([&] {
    if (!others.empty()) first().Post();
    for (const Source& source : others) {
      source.device->Enter();
      source.device->Follow(first());
    }
    operations();
  });
  // In any case: a stream that does not join again would go on recording.
  for (const Source& source : others) {
    attempt([&] {
      source.device->Enter();
      source.device->Post();
      first().Enter();
      first().Follow(*source.device);
    });
  }
  for (const Source& source : sources_) source.device->recording = nullptr;
  first().Enter();
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(first().stream, &graph) != cudaSuccess) return nullptr;
  if (complete) return graph;
  if (graph != nullptr) cudaGraphDestroy(graph);
  return nullptr;
}

void StepGraphs::Forget(Recorded& recorded) {
  if (recorded.graph == nullptr) return;
  cudaGraphExecDestroy(recorded.graph);
  recorded.graph = nullptr;
  recorded.on_host = {};
  --graphs_;
}

void StepGraphs::ForgetOldest() {
  if (seen_.size() <= kMostSeen && graphs_ <= kMostGraphs) return;
  first().Synchronize();  // a graph that is running must stay
  std::vector<std::uint64_t> uses;
  for (const auto& [key, recorded] : seen_) {
    if (recorded.graph != nullptr) uses.push_back(recorded.used);
  }
  // Half of the graphs go, so that this is rare.
  std::uint64_t oldest_kept = 0;
  if (graphs_ > kMostGraphs) {
    const auto middle = uses.begin() + static_cast<std::ptrdiff_t>(uses.size() / 2);
    std::nth_element(uses.begin(), middle, uses.end());
    oldest_kept = *middle;
  }
  for (auto it = seen_.begin(); it != seen_.end();) {
    Recorded& recorded = it->second;
    if (recorded.graph != nullptr && recorded.used >= oldest_kept) {
      ++it;
      continue;
    }
    Forget(recorded);
    it = seen_.erase(it);
  }
}

}  // namespace banyan::cuda
