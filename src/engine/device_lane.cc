#include "engine/device_lane.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "kernels/device_error.h"

namespace banyan {
namespace {

// Where there is no memory to go on, others may have given some back after this time.
constexpr auto kMemoryPause = std::chrono::milliseconds(5);
constexpr int kLastTries = 1000;  // at the end, when nobody may be left who gives some back

// Of a device that several lanes have, each has a part of the memory.
EngineOptions OptionsOf(EngineOptions options, const DeviceName& device) {
  options.kv_memory /= device.sharers;
  return options;
}

}  // namespace

DeviceLane::DeviceLane(std::shared_ptr<Model> model, size_t device, const EngineOptions& options,
                       RequestQueue& queue, std::shared_ptr<AnswerQueue> answers)
    : copy_(model->parts(device)),
      device_(device),
      queue_(queue),
      answers_(std::move(answers)),
      core_(model, device, OptionsOf(options, copy_.device)),
      most_branches_(core_.most_branches()) {}

// A mutex is not fair: the working thread waits while there are other callers (see Run).
std::unique_lock<std::mutex> DeviceLane::LockCore() {
  ++callers_;
  std::unique_lock lock(core_mutex_);
  --callers_;
  return lock;
}

// REQUIRES: core_mutex_. A device that cannot be entered has failed as one whose step does.
void DeviceLane::EnterThread() {
  try {
    copy_.kernels->EnterThread();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

// REQUIRES: core_mutex_. When this throws, nothing is lost: the next call goes on.
void DeviceLane::TakeInbox() {
  StartAnewAfterFailure();
  for (;;) {
    for (; next_arriving_ < arriving_.size(); ++next_arriving_) {
      core_.Accept(arriving_[next_arriving_]);
      ++requests_;
    }
    arriving_.clear();
    next_arriving_ = 0;
    if (!queue_.Take(device_, FindRoom(), arriving_, cancelled_)) break;
  }
  try {
    for (const RequestQueue::Cancellation& wanted : cancelled_) {
      core_.Cancel(wanted.request, wanted.tag);
    }
  } catch (...) {
    failure_ = std::current_exception();
    cancelled_.clear();
    throw;
  }
  cancelled_.clear();
}

// REQUIRES: core_mutex_. What can begin is begun, so that no more is taken than there is room for.
RequestQueue::Room DeviceLane::FindRoom() {
  if (!queue_.one_by_one()) return {};
  try {
    if (core_.HasRoom()) return {};
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
  return {.any = false, .above = core_.next_priority()};
}

// REQUIRES: core_mutex_. When this throws, the next call does it again.
void DeviceLane::StartAnewAfterFailure() {
  if (!failure_) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const DeviceError& error) {
    queue_.ReportFailure(device_, error.what());  // before the answers that it ends
    core_.StartAnew(error.what());
  } catch (const std::exception& error) {
    core_.StartAnew(error.what());
  } catch (...) {
    core_.StartAnew("unknown");
  }
  failure_ = nullptr;
}

// REQUIRES: core_mutex_. When this throws, nothing is lost: the next call goes on.
void DeviceLane::Deliver() {
  for (;;) {
    if (next_delivery_ == deliveries_.size()) {
      deliveries_ = core_.TakeEvents();
      next_delivery_ = 0;
    }
    if (deliveries_.empty()) break;
    const std::shared_ptr<AnswerQueue> queue = deliveries_[next_delivery_].first;
    AnswerQueue::Putting putting(queue ? *queue : *answers_);
    for (; next_delivery_ < deliveries_.size() && deliveries_[next_delivery_].first == queue;
         ++next_delivery_) {
      putting.Put(deliveries_[next_delivery_].second);
    }
  }
  queue_.Report(device_, {.waiting = core_.waiting(),
                          .waiting_tokens = core_.waiting_tokens(),
                          .running = core_.writing(),
                          .idle = core_.idle() && next_arriving_ == arriving_.size() && !failure_});
}

// REQUIRES: core_mutex_. Whatever is thrown ends the answers under way and not the engine.
DeviceLane::Left DeviceLane::WorkOnce() noexcept {
  bool more = true, done = true;
  try {
    EnterThread();
    TakeInbox();
    try {
      more = core_.Step();
    } catch (...) {
      failure_ = std::current_exception();
    }
    StartAnewAfterFailure();
  } catch (...) {
    done = false;
  }
  try {
    Deliver();
  } catch (...) {
    done = false;
  }
  return !done ? Left::kUndone : more ? Left::kWork : Left::kNothing;
}

DeviceLane::Left DeviceLane::Work() noexcept {
  std::unique_lock working = LockCore();
  const Left left = WorkOnce();
  working.unlock();
  if (left == Left::kUndone) std::this_thread::sleep_for(kMemoryPause);
  return left;
}

void DeviceLane::Start() {
  thread_ = std::thread([this] { Run(); });
}

void DeviceLane::Run() {
  while (queue_.Await(device_)) {
    while (callers_ > 0) std::this_thread::yield();
    Work();
  }
}

void DeviceLane::TakeCancellations() {
  const std::unique_lock working(core_mutex_, std::try_to_lock);
  if (!working) return;
  try {
    EnterThread();
    TakeInbox();
    Deliver();
  } catch (...) {  // whoever makes the next step goes on with it
    queue_.SetBusy(device_);
  }
}

void DeviceLane::CancelAll() {
  const std::lock_guard working(core_mutex_);
  for (int i = 0; i < kLastTries; ++i) {
    try {
      EnterThread();
      TakeInbox();
      core_.EndAll(FinishReason::kCancelled, "");
      return Deliver();
    } catch (...) {
      failure_ = std::current_exception();
    }
    std::this_thread::sleep_for(kMemoryPause);
  }
}

Receipt DeviceLane::MakeReceipt(Latencies& latencies) {
  const std::unique_lock working = LockCore();
  EnterThread();
  Receipt receipt = core_.MakeReceipt();
  latencies.Add(core_.latencies());
  receipt.devices = {{.name = copy_.device.name,
                      .requests = requests_,
                      .requests_of_others = queue_.stolen(device_),
                      .prefilled_tokens = receipt.prefilled_tokens,
                      .generated_tokens = receipt.generated_tokens,
                      .busy_seconds = receipt.decode_step_seconds + receipt.prefill_step_seconds,
                      .weight_bytes = copy_.weights.bytes,
                      .kv_bytes = receipt.kv_bytes_total}};
  return receipt;
}

std::string DeviceLane::Explain(WorkAhead& ahead) {
  const std::unique_lock working = LockCore();
  EnterThread();
  TakeInbox();
  std::string text;
  try {
    text = core_.Explain(ahead);
    ahead.documents += static_cast<double>(requests_);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
  Deliver();
  return text;
}

std::vector<ForestNode> DeviceLane::Picture(std::span<const RequestId> requests) {
  const std::unique_lock working = LockCore();
  return core_.Picture(requests);
}

}  // namespace banyan
