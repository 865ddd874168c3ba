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

const void* StatesOf(const KvMemory& kv) {
  return kv.states == nullptr ? nullptr : static_cast<const DeviceStates&>(*kv.states).data();
}

}  // namespace

StepGraphs::~StepGraphs() {
  cudaStreamSynchronize(device_->stream);
  for (auto& [key, recorded] : seen_) {
    if (recorded.graph != nullptr) cudaGraphExecDestroy(recorded.graph);
  }
}

void StepGraphs::Run(std::span<const RecordedStep> steps, int variant,
                     const std::function<void()>& operations) {
  const StepInputs& step = *steps.front().step;
  const KvMemory& kv = *steps.front().kv;
  const auto& on_device = static_cast<const DeviceStep&>(step);
  // Steps with a parallel context are rare, and their launches have its numbers. Where there may be
  // no room for the partials, the operations make it, and the key changes.
  if (step.rows > kMostRows || on_device.context.pages > 0 ||
      !partials_.Holds(on_device.partials, partials_.partial_bytes())) {
    return operations();
  }
  const Key key{variant,
                step.rows,
                step.logit_rows,
                on_device.layout(),
                static_cast<const KvPages&>(kv).data(),
                StatesOf(kv),
                partials_.data(),
                partials_.queries(),
                partials_.bytes()};
  const auto [it, first_time] = seen_.try_emplace(key);
  Recorded& recorded = it->second;
  recorded.used = ++clock_;
  if (first_time) {
    operations();
    return ForgetOldest();
  }
  if (recorded.graph != nullptr && recorded.unsettled && products_.MaySettle()) {
    device_->Synchronize();
    Forget(recorded);
    return operations();
  }
  if (recorded.refused || (recorded.graph == nullptr && !Record(recorded, operations)) ||
      !partials_.Holds(on_device.partials, recorded.partial_bytes)) {
    return operations();
  }
  Check(cudaGraphLaunch(recorded.graph, device_->stream), "launch of a recorded step");
  recorded.on_host.Repeat();
}

// False when the operations cannot be recorded. They have not been run in either case.
bool StepGraphs::Record(Recorded& recorded, const std::function<void()>& operations) {
  const std::int64_t guesses = products_.launches();
  const cudaGraph_t graph = Capture(operations, recorded.on_host);
  recorded.unsettled = products_.launches() != guesses;
  // With the priorities of the streams: attention depends on them.
  if (graph == nullptr ||
      cudaGraphInstantiate(&recorded.graph, graph, cudaGraphInstantiateFlagUseNodePriority) !=
          cudaSuccess) {
    recorded.graph = nullptr;
    recorded.refused = true;
  } else {
    recorded.partial_bytes = partials_.partial_bytes();
    ++graphs_;
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();  // why it was refused does not matter to what comes next
  return !recorded.refused;
}

// Null when something among the operations cannot be recorded.
cudaGraph_t StepGraphs::Capture(const std::function<void()>& operations, Recording& on_host) {
  if (cudaStreamBeginCapture(device_->stream, cudaStreamCaptureModeRelaxed) != cudaSuccess) {
    return nullptr;
  }
  device_->recording = &on_host;
  bool complete = true;
  try {
    operations();
  } catch (const Error&) {
    complete = false;  // where this is no matter of recording, running them will say so
  }
  device_->recording = nullptr;
  cudaGraph_t graph = nullptr;
  if (cudaStreamEndCapture(device_->stream, &graph) != cudaSuccess) return nullptr;
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
  device_->Synchronize();  // a graph that is running must stay
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
