#include "engine/request_queue.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

RequestSize SizeOf(const RequestTree& request) {
  return {static_cast<std::int64_t>(request.streams.size()), request.tokens};
}

RequestSize& operator+=(RequestSize& size, const RequestSize& more) {
  size.answers += more.answers;
  size.tokens += more.tokens;
  return size;
}

RequestSize& operator-=(RequestSize& size, const RequestSize& less) {
  size.answers -= less.answers;
  size.tokens -= less.tokens;
  return size;
}

}  // namespace

RequestQueue::RequestQueue(std::vector<std::string> devices, const RequestSize& most)
    : most_(most), router_(devices.size()) {
  for (std::string& name : devices) devices_.emplace_back().name = std::move(name);
}

// --- Callers

RequestSize RequestQueue::Waiting() const {
  RequestSize size = queued_;
  for (const Device& device : devices_) {
    size += {device.counts.waiting, device.counts.waiting_tokens};
  }
  return size;
}

bool RequestQueue::HasRoom(const RequestSize& size, const AnswerQueue& answers) const {
  RequestSize all = Waiting();
  all += promised_;
  all.answers += answers.ended();
  if (all.answers == 0) return true;
  all += size;
  return all.answers <= most_.answers && all.tokens <= most_.tokens;
}

bool RequestQueue::Promise(const RequestSize& size, const AnswerQueue& answers, bool wait) {
  std::unique_lock lock(mutex_);
  while (ending_ == Ending::kNo && !HasRoom(size, answers)) {
    if (!wait) return false;
    if (!started_) {
      Throw(ErrorKind::kLimit,
            "the queue is full: {} answers wait or were not taken, at most {} may; make steps or "
            "take answers first",
            Waiting().answers + answers.ended(), most_.answers);
    }
    // Taking answers from a queue does not notify `changed_`, so this polls.
    changed_.wait_for(lock, std::chrono::milliseconds(5));
  }
  RefuseAfterEnd();
  promised_ += size;
  return true;
}

void RequestQueue::GiveBack(const RequestSize& size) {
  const std::lock_guard lock(mutex_);
  promised_ -= size;
  changed_.notify_all();
}

RequestId RequestQueue::Put(const std::shared_ptr<RequestTree>& request, const RequestSize& size) {
  const std::lock_guard lock(mutex_);
  promised_ -= size;
  RefuseAfterEnd();
  request->id = ++last_request_;
  request->first_number = next_number_;
  next_number_ += request->answers.size();
  request->submitted = RequestTree::Clock::now();
  router_.Add(request);
  queued_ += SizeOf(*request);
  changed_.notify_all();
  return request->id;
}

void RequestQueue::RefuseAfterEnd() const {
  if (ending_ != Ending::kNo) Throw(ErrorKind::kUsage, "the engine was shut down");
}

// All devices hear of it, as any of them may have the request. One that still waits goes to its
// device at once, so that it is there when the cancellation comes.
void RequestQueue::Cancel(const Cancellation& cancellation) {
  const std::lock_guard lock(mutex_);
  for (Device& device : devices_) {
    device.cancellations.push_back(cancellation);
    device.pressing.reserve(device.pressing.size() + 1);
  }
  auto [request, device] = router_.Remove(cancellation.request);
  if (request) devices_[device].pressing.push_back(std::move(request));
  changed_.notify_all();
}

bool RequestQueue::Start() {
  const std::lock_guard lock(mutex_);
  RefuseAfterEnd();
  return !std::exchange(started_, true);
}

bool RequestQueue::End(Unfinished unfinished) {
  const std::lock_guard lock(mutex_);
  if (ending_ != Ending::kNo) return false;
  ending_ = unfinished == Unfinished::kFinish ? Ending::kWhenDone : Ending::kNow;
  changed_.notify_all();
  return true;
}

bool RequestQueue::NothingIsQueued() const {
  return router_.waiting() == 0 &&
         std::ranges::all_of(devices_, [](const Device& one) { return one.pressing.empty(); });
}

bool RequestQueue::Idle() const {
  return NothingIsQueued() && std::ranges::all_of(devices_, [](const Device& device) {
           return device.counts.idle && device.cancellations.empty();
         });
}

bool RequestQueue::WaitUntilIdle(double seconds) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return Idle(); });
}

std::int64_t RequestQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return Waiting().answers;
}

int RequestQueue::running() const {
  const std::lock_guard lock(mutex_);
  int running = 0;
  for (const Device& device : devices_) running += device.counts.running;
  return running;
}

std::optional<DeviceFailure> RequestQueue::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

// --- A device

bool RequestQueue::HasWorkLocked(size_t device) const {
  const Device& mine = devices_[device];
  return !mine.counts.idle || !mine.cancellations.empty() || !mine.pressing.empty() ||
         router_.Has(device);
}

bool RequestQueue::HasWork(size_t device) const {
  const std::lock_guard lock(mutex_);
  return HasWorkLocked(device);
}

bool RequestQueue::Await(size_t device) {
  std::unique_lock lock(mutex_);
  const auto over = [this] { return ending_ == Ending::kWhenDone && NothingIsQueued(); };
  changed_.wait(lock, [&] { return ending_ == Ending::kNow || HasWorkLocked(device) || over(); });
  return ending_ != Ending::kNow && HasWorkLocked(device);
}

bool RequestQueue::Take(size_t device, const Room& room,
                        std::vector<std::shared_ptr<RequestTree>>& requests,
                        std::vector<Cancellation>& cancellations) {
  const std::lock_guard lock(mutex_);
  Device& mine = devices_[device];
  const size_t before = requests.size();
  requests.reserve(before + mine.pressing.size() + router_.waiting() + 1);  // nothing below throws
  for (auto& request : std::exchange(mine.pressing, {})) requests.push_back(std::move(request));
  if (!one_by_one() || ending_ == Ending::kNow) {
    router_.TakeAll(device, requests);
  } else if (requests.size() == before) {
    const std::optional<int> above = room.any ? std::nullopt : std::optional(room.above);
    if (auto request = router_.Take(device, above)) requests.push_back(std::move(request));
    router_.SetFull(device, !room.any);
  }
  if (requests.size() == before) {
    cancellations.swap(mine.cancellations);
    // What it leaves, others may take.
    if (!room.any && router_.waiting() > 0) changed_.notify_all();
    return false;
  }
  for (size_t i = before; i < requests.size(); ++i) {
    const RequestSize size = SizeOf(*requests[i]);
    queued_ -= size;
    // Until the device says how many wait, they count there.
    mine.counts.waiting += size.answers;
    mine.counts.waiting_tokens += size.tokens;
  }
  mine.counts.idle = false;
  return true;
}

void RequestQueue::Report(size_t device, const Counts& counts) {
  const std::lock_guard lock(mutex_);
  devices_[device].counts = counts;
  changed_.notify_all();
}

void RequestQueue::SetBusy(size_t device) {
  const std::lock_guard lock(mutex_);
  devices_[device].counts.idle = false;
  changed_.notify_all();
}

void RequestQueue::ReportFailure(size_t device, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = {devices_[device].name, why};
  router_.TakeOut(device);
  changed_.notify_all();
}

std::int64_t RequestQueue::stolen(size_t device) const {
  const std::lock_guard lock(mutex_);
  return router_.stolen(device);
}

}  // namespace banyan
