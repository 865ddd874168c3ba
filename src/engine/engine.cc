// The engine as its callers see it: a queue of requests, and a lane for every device of the model.
#include "banyan/engine.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/device_lane.h"
#include "engine/request/request_check.h"
#include "engine/request_queue.h"
#include "engine/step/division_of_model.h"

namespace banyan {
namespace {

constexpr std::int64_t kMostWaiting = 1'000'000;
constexpr std::int64_t kMostWaitingTokens = std::int64_t{1} << 28;

// The sums of two devices' receipts; latencies and predictions are the caller's to set.
void AddReceipt(const Receipt& more, Receipt& sum) {
  constexpr std::int64_t Receipt::*kCounts[] = {&Receipt::prompt_tokens,
                                                &Receipt::prefilled_tokens,
                                                &Receipt::copied_tokens,
                                                &Receipt::loaded_tokens,
                                                &Receipt::saved_tokens,
                                                &Receipt::generated_tokens,
                                                &Receipt::decode_rows,
                                                &Receipt::dropped_rows,
                                                &Receipt::steps,
                                                &Receipt::streams,
                                                &Receipt::failed,
                                                &Receipt::cancelled,
                                                &Receipt::preempted,
                                                &Receipt::recomputed_tokens,
                                                &Receipt::refused_steps,
                                                &Receipt::decode_steps,
                                                &Receipt::decode_step_tokens,
                                                &Receipt::kv_bytes_peak,
                                                &Receipt::kv_bytes_total,
                                                &Receipt::state_bytes_peak,
                                                &Receipt::state_bytes_total,
                                                &Receipt::kv_bytes_held,
                                                &Receipt::steps_apart};
  constexpr double Receipt::*kSeconds[] = {
      &Receipt::plan_seconds,  &Receipt::forward_seconds,      &Receipt::choose_seconds,
      &Receipt::wait_seconds,  &Receipt::decode_step_seconds,  &Receipt::prefill_step_seconds,
      &Receipt::limit_seconds, &Receipt::decode_limit_seconds, &Receipt::predicted_seconds};
  for (const auto count : kCounts) sum.*count += more.*count;
  for (const auto seconds : kSeconds) sum.*seconds += more.*seconds;
  // A store that the devices share counts for all of them.
  sum.damaged_segments = std::max(sum.damaged_segments, more.damaged_segments);
  sum.devices.insert(sum.devices.end(), more.devices.begin(), more.devices.end());
}

}  // namespace

struct Engine::State {
  State(std::shared_ptr<Model> model, const EngineOptions& options);

  std::optional<RequestId> Submit(PromptSegment& request, const SubmitOptions& submit, bool wait);
  void Cancel(RequestId request, std::optional<std::uint64_t> tag);
  bool Step();
  void Start();
  void Shutdown(Unfinished unfinished);
  Receipt MakeReceipt();
  std::string Explain();
  std::vector<DevicesPrediction> Predict(const WorkAhead& work);
  std::string DescribeDevices(const WorkAhead& ahead);
  std::vector<ForestNode> Picture(std::span<const RequestId> requests);

  const std::shared_ptr<Model> model;
  const bool sequential;
  const std::shared_ptr<AnswerQueue> own_queue = std::make_shared<AnswerQueue>();
  RequestQueue queue;
  std::vector<std::unique_ptr<DeviceLane>> lanes;       // [devices]; after the queue that they use
  int most_branches = std::numeric_limits<int>::max();  // of a stream
};

Engine::State::State(std::shared_ptr<Model> model_, const EngineOptions& options)
    : model(std::move(model_)),
      sequential(options.strategy == Strategy::kSequential),
      queue(model->devices(),
            {options.max_waiting > 0 ? options.max_waiting : kMostWaiting,
             options.max_waiting_tokens > 0 ? options.max_waiting_tokens : kMostWaitingTokens}) {
  for (size_t device = 0; device < model->copies(); ++device) {
    Model::Parts& copy = model->parts(device);
    copy.kernels->EnterThread();
    if (device > 0) {  // the devices are alike
      copy.costs = model->parts().costs;
      copy.rates = model->parts().rates;
    }
    lanes.push_back(std::make_unique<DeviceLane>(model, device, options, queue, own_queue));
    most_branches = std::min(most_branches, lanes.back()->most_branches());
    // Now, while nothing computes beside it.
    if (device == 0 && model->copies() > 1) model->parts().Rates();
  }
}

std::optional<RequestId> Engine::State::Submit(PromptSegment& request, const SubmitOptions& submit,
                                               bool wait) {
  // Checked and taken apart without a lock: a large request does not block other callers.
  const RequestSize size = CheckRequest(request, model->parts(), {sequential, most_branches});
  if (!queue.Promise(size, submit.queue ? *submit.queue : *own_queue, wait)) return std::nullopt;
  std::shared_ptr<RequestTree> tree;
  try {
    const std::int32_t variant = model->parts().VariantOf(request.adapter);
    tree = MakeRequestTree(request, {sequential, model->parts().config.states.any()});
    tree->variant = variant;
  } catch (...) {
    queue.GiveBack(size);
    throw;
  }
  tree->priority = submit.priority;
  tree->scope = submit.scope;
  tree->queue = submit.queue;
  return queue.Put(tree, size);
}

void Engine::State::Cancel(RequestId request, std::optional<std::uint64_t> tag) {
  queue.Cancel({request, tag});
  for (const auto& lane : lanes) lane->TakeCancellations();
}

// The devices' steps are made side by side.
bool Engine::State::Step() {
  if (lanes.size() == 1) return lanes.front()->Work() != DeviceLane::Left::kNothing;
  std::vector<DeviceLane::Left> left(lanes.size(), DeviceLane::Left::kNothing);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < lanes.size(); ++i) {
    if (lanes[i]->HasWork()) threads.emplace_back([this, &left, i] { left[i] = lanes[i]->Work(); });
  }
  left[0] = lanes[0]->Work();
  for (std::thread& thread : threads) thread.join();
  return std::ranges::any_of(left, [](auto one) { return one != DeviceLane::Left::kNothing; });
}

void Engine::State::Start() {
  if (!queue.Start()) return;
  for (const auto& lane : lanes) lane->Start();
}

void Engine::State::Shutdown(Unfinished unfinished) {
  if (!queue.End(unfinished)) return;
  if (lanes.front()->started()) {
    for (const auto& lane : lanes) lane->Join();
  } else {
    while (unfinished == Unfinished::kFinish && Step()) {
    }
  }
  if (unfinished == Unfinished::kFinish) return;
  for (const auto& lane : lanes) lane->CancelAll();
}

Receipt Engine::State::MakeReceipt() {
  Latencies latencies;
  Receipt receipt = lanes.front()->MakeReceipt(latencies);
  if (lanes.size() == 1) return receipt;
  for (size_t i = 1; i < lanes.size(); ++i) {
    AddReceipt(lanes[i]->MakeReceipt(latencies), receipt);
  }
  latencies.Report(receipt);
  // The devices work at the same time.
  receipt.limit_seconds /= static_cast<double>(lanes.size());
  receipt.decode_limit_seconds /= static_cast<double>(lanes.size());
  return receipt;
}

std::string Engine::State::Explain() {
  WorkAhead ahead;
  if (lanes.size() == 1) {
    const std::string explained = lanes.front()->Explain(ahead);
    return explained + DescribeDevices(ahead);
  }
  std::string text, each;
  for (const auto& lane : lanes) {
    const std::string explained = lane->Explain(ahead);  // takes what is waiting
    Latencies unused;
    const DeviceShare share = lane->MakeReceipt(unused).devices.front();
    text += fmt::format("device    {}: {} requests to begin with; weights {} MiB, kv {} MiB\n",
                        share.name, share.requests, share.weight_bytes >> 20, share.kv_bytes >> 20);
    each += fmt::format("on {}\n{}", share.name, explained);
  }
  return text + DescribeDevices(ahead) + each;
}

std::vector<DevicesPrediction> Engine::State::Predict(const WorkAhead& work) {
  Model::Parts& one = model->parts();
  const int shards = std::max(1, one.kernels->options().shards);
  return banyan::PredictDevices(one, one.Rates(), work,
                                {lanes.front()->batch_rows(), lanes.front()->max_streams()},
                                static_cast<int>(lanes.size()) * shards);
}

std::string Engine::State::DescribeDevices(const WorkAhead& ahead) {
  Model::Parts& one = model->parts();
  const int shards = std::max(1, one.kernels->options().shards);
  std::string chosen = shards > 1 ? fmt::format("a model in {} shards", shards) : "a whole model";
  if (lanes.size() > 1) {
    chosen += fmt::format(" on each of {}, documents divided", lanes.size());
  } else {
    chosen += fmt::format(" on {}", one.device.name);
  }
  return DescribePredictions(Predict(ahead), one, one.Rates(), chosen);
}

// The numbers of nodes are a device's own: here they are made different.
std::vector<ForestNode> Engine::State::Picture(std::span<const RequestId> requests) {
  std::vector<ForestNode> all;
  for (size_t i = 0; i < lanes.size(); ++i) {
    for (ForestNode& node : lanes[i]->Picture(requests)) {
      const auto numbered = [&](std::uint64_t id) { return id == 0 ? 0 : id * lanes.size() + i; };
      node.id = numbered(node.id);
      node.parent = numbered(node.parent);
      all.push_back(node);
    }
  }
  return all;
}

Engine::Engine(std::shared_ptr<Model> model, const EngineOptions& options)
    : state_(std::make_unique<State>(std::move(model), options)) {}
Engine::~Engine() { Shutdown(Unfinished::kCancel); }

std::optional<RequestId> Engine::TrySubmit(PromptSegment& request, const SubmitOptions& options) {
  return state_->Submit(request, options, /*wait=*/false);
}
RequestId Engine::Submit(PromptSegment request, const SubmitOptions& options) {
  return *state_->Submit(request, options, /*wait=*/true);
}
void Engine::Cancel(RequestId request) { state_->Cancel(request, std::nullopt); }
void Engine::Cancel(RequestId request, std::uint64_t tag) { state_->Cancel(request, tag); }

bool Engine::Step() { return state_->Step(); }
void Engine::Start() { state_->Start(); }
void Engine::Shutdown(Unfinished unfinished) { state_->Shutdown(unfinished); }
bool Engine::WaitUntilIdle(double seconds) { return state_->queue.WaitUntilIdle(seconds); }

std::vector<AnswerEvent> Engine::TakeEvents(double seconds) {
  return state_->own_queue->Take(seconds);
}

std::vector<Answer> Engine::TakeFinished() {
  std::vector<Answer> answers;
  for (AnswerEvent& event : state_->own_queue->Take()) {
    if (event.ended) answers.push_back(std::move(event.answer));
  }
  return answers;
}

int Engine::waiting() const { return static_cast<int>(state_->queue.waiting()); }
int Engine::running() const { return state_->queue.running(); }

int Engine::wanted_waiting() const {
  int wanted = 0;
  for (const auto& lane : state_->lanes) wanted += lane->max_streams();
  return wanted;
}

std::optional<DeviceFailure> Engine::failure() const { return state_->queue.failure(); }
Receipt Engine::receipt() const { return state_->MakeReceipt(); }
std::string Engine::Explain() { return state_->Explain(); }
std::vector<DevicesPrediction> Engine::PredictDevices(const WorkAhead& work) const {
  return state_->Predict(work);
}
std::vector<ForestNode> Engine::Picture(std::span<const RequestId> requests) const {
  return state_->Picture(requests);
}

}  // namespace banyan
