// The engine as its callers see it. Requests and cancellations go into an inbox that the working
// thread empties between steps; events go into queues. Two locks, always taken in this order:
// `core_mutex` is held for a whole step, `mutex` only for moments.
#include "banyan/engine.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/core.h"
#include "engine/request/request_check.h"

namespace banyan {
namespace {

constexpr std::int64_t kMostWaiting = 1'000'000;
constexpr std::int64_t kMostWaitingTokens = std::int64_t{1} << 28;
// Where there is no memory to go on, others may have given some back after this time.
constexpr auto kMemoryPause = std::chrono::milliseconds(5);
constexpr int kLastTries = 1000;  // at the end, when nobody may be left who gives some back

}  // namespace

struct Engine::State {
  State(std::shared_ptr<Model> model, const EngineOptions& options);

  std::optional<RequestId> Submit(PromptSegment& request, const SubmitOptions& submit, bool wait);
  void Cancel(RequestId request, std::optional<std::uint64_t> tag);
  bool Step();
  void Start();
  void Shutdown(Unfinished unfinished);
  bool WaitUntilIdle(double seconds);
  Receipt MakeReceipt();
  std::string Explain();
  std::vector<ForestNode> Picture(std::span<const RequestId> requests);

  struct Cancellation {
    RequestId request = 0;
    std::optional<std::uint64_t> tag;
  };
  enum class Ending { kNo, kWhenDone, kNow };

  // Lets a caller in between two steps of the thread.
  std::unique_lock<std::mutex> LockCore();
  bool HasRoom(const RequestSize& size, const AnswerQueue& queue) const;
  void RefuseAfterEnd() const;
  void TakeInbox();
  void StartAnewAfterFailure();
  void Deliver();
  // After a turn of work: nothing to do, more of it, or what memory was missing for.
  enum class Left { kNothing, kWork, kUndone };
  Left WorkOnce() noexcept;
  void Work();
  void CancelAll();

  const std::shared_ptr<Model> model;
  const bool sequential;
  const std::int64_t max_waiting, max_waiting_tokens;
  const std::shared_ptr<AnswerQueue> own_queue = std::make_shared<AnswerQueue>();

  std::mutex core_mutex;  // guards `core` and what stands between it and the other threads
  EngineCore core;
  std::exception_ptr failure;  // of the core, which must start anew before anything else
  // Requests that left the inbox; from next_arriving on they are not in the core yet.
  std::vector<std::shared_ptr<RequestTree>> arriving;
  size_t next_arriving = 0;
  // Events that left the core; from next_delivery on they are not in their queues yet.
  std::vector<AnswerEvents::Delivery> deliveries;
  size_t next_delivery = 0;
  const int most_branches = core.most_branches();  // of a stream
  std::atomic<int> callers{0};                     // that wait for core_mutex

  mutable std::mutex mutex;         // guards what follows
  std::condition_variable changed;  // the inbox, or what is below
  std::vector<std::shared_ptr<RequestTree>> submitted;
  std::vector<Cancellation> cancellations;
  RequestSize inbox;     // of requests that are submitted and not in the core yet
  RequestSize promised;  // of requests that have room and are being made into trees
  RequestId last_request = 0;
  std::uint64_t next_number = 1;
  // Of the core, after its last step.
  std::int64_t waiting = 0, waiting_tokens = 0;
  int running = 0;
  bool idle = true;
  bool started = false;
  Ending ending = Ending::kNo;

  std::thread thread;
};

Engine::State::State(std::shared_ptr<Model> model_, const EngineOptions& options)
    : model(model_),
      sequential(options.strategy == Strategy::kSequential),
      max_waiting(options.max_waiting > 0 ? options.max_waiting : kMostWaiting),
      max_waiting_tokens(options.max_waiting_tokens > 0 ? options.max_waiting_tokens
                                                        : kMostWaitingTokens),
      core(std::move(model_), options) {}

bool Engine::State::HasRoom(const RequestSize& size, const AnswerQueue& queue) const {
  const std::int64_t streams = waiting + inbox.answers + promised.answers + queue.ended();
  const std::int64_t tokens = waiting_tokens + inbox.tokens + promised.tokens;
  return streams == 0 ||
         (streams + size.answers <= max_waiting && tokens + size.tokens <= max_waiting_tokens);
}

std::optional<RequestId> Engine::State::Submit(PromptSegment& request, const SubmitOptions& submit,
                                               bool wait) {
  // Checked and taken apart without a lock: a large request does not block other callers.
  const RequestSize size = CheckRequest(request, model->parts(), {sequential, most_branches});
  const AnswerQueue& queue = submit.queue ? *submit.queue : *own_queue;
  {
    std::unique_lock lock(mutex);
    while (ending == Ending::kNo && !HasRoom(size, queue)) {
      if (!wait) return std::nullopt;
      if (!started) {
        Throw(ErrorKind::kLimit,
              "the queue is full: {} answers wait or were not taken, at most {} may; make steps or "
              "take answers first",
              waiting + inbox.answers + queue.ended(), max_waiting);
      }
      // Taking answers from a queue does not notify `changed`, so this polls.
      changed.wait_for(lock, std::chrono::milliseconds(5));
    }
    RefuseAfterEnd();
    promised.answers += size.answers;
    promised.tokens += size.tokens;
  }
  std::shared_ptr<RequestTree> tree;
  try {
    const std::int32_t variant = model->parts().VariantOf(request.adapter);
    tree = MakeRequestTree(request, {sequential, model->parts().config.states.any()});
    tree->variant = variant;
  } catch (...) {
    const std::lock_guard lock(mutex);
    promised.answers -= size.answers;
    promised.tokens -= size.tokens;
    changed.notify_all();
    throw;
  }
  tree->priority = submit.priority;
  tree->scope = submit.scope;
  tree->queue = submit.queue;
  const std::lock_guard lock(mutex);
  promised.answers -= size.answers;
  promised.tokens -= size.tokens;
  RefuseAfterEnd();
  submitted.push_back(tree);
  tree->id = ++last_request;
  tree->first_number = next_number;
  next_number += tree->answers.size();
  tree->submitted = RequestTree::Clock::now();
  inbox.answers += static_cast<std::int64_t>(tree->streams.size());
  inbox.tokens += tree->tokens;
  changed.notify_all();
  return tree->id;
}

// REQUIRES: mutex.
void Engine::State::RefuseAfterEnd() const {
  if (ending != Ending::kNo) Throw(ErrorKind::kUsage, "the engine was shut down");
}

void Engine::State::Cancel(RequestId request, std::optional<std::uint64_t> tag) {
  {
    const std::lock_guard lock(mutex);
    cancellations.push_back({request, tag});
    changed.notify_all();
  }
  // At once if no step is running, else before the next one.
  const std::unique_lock working(core_mutex, std::try_to_lock);
  if (!working) return;
  try {
    TakeInbox();
    Deliver();
  } catch (...) {  // whoever makes the next step goes on with it
    const std::lock_guard lock(mutex);
    idle = false;
    changed.notify_all();
  }
}

// REQUIRES: core_mutex. When this throws, nothing is lost: the next call goes on.
void Engine::State::TakeInbox() {
  StartAnewAfterFailure();
  std::vector<Cancellation> cancelled;
  for (;;) {
    for (; next_arriving < arriving.size(); ++next_arriving) core.Accept(arriving[next_arriving]);
    arriving.clear();
    next_arriving = 0;
    const std::lock_guard lock(mutex);
    if (submitted.empty()) {
      cancelled.swap(cancellations);
      break;
    }
    arriving.swap(submitted);
    // Until the core says how many wait, they count there.
    waiting += inbox.answers;
    waiting_tokens += inbox.tokens;
    inbox = {};
    idle = false;
  }
  try {
    for (const Cancellation& wanted : cancelled) core.Cancel(wanted.request, wanted.tag);
  } catch (...) {
    failure = std::current_exception();
    throw;
  }
}

// REQUIRES: core_mutex. When this throws, the next call does it again.
void Engine::State::StartAnewAfterFailure() {
  if (!failure) return;
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    core.StartAnew(error.what());
  } catch (...) {
    core.StartAnew("unknown");
  }
  failure = nullptr;
}

// REQUIRES: core_mutex. When this throws, nothing is lost: the next call goes on.
void Engine::State::Deliver() {
  for (;;) {
    if (next_delivery == deliveries.size()) {
      deliveries = core.TakeEvents();
      next_delivery = 0;
    }
    if (deliveries.empty()) break;
    const std::shared_ptr<AnswerQueue> queue = deliveries[next_delivery].first;
    AnswerQueue::Putting putting(queue ? *queue : *own_queue);
    for (; next_delivery < deliveries.size() && deliveries[next_delivery].first == queue;
         ++next_delivery) {
      putting.Put(deliveries[next_delivery].second);
    }
  }
  const std::lock_guard lock(mutex);
  waiting = core.waiting();
  waiting_tokens = core.waiting_tokens();
  running = core.writing();
  idle = core.idle() && next_arriving == arriving.size() && !failure;
  changed.notify_all();
}

bool Engine::State::Step() {
  std::unique_lock working = LockCore();
  const Left left = WorkOnce();
  working.unlock();
  if (left == Left::kUndone) std::this_thread::sleep_for(kMemoryPause);
  return left != Left::kNothing;
}

// A mutex is not fair: the working thread waits while there are other callers (see Work).
std::unique_lock<std::mutex> Engine::State::LockCore() {
  ++callers;
  std::unique_lock lock(core_mutex);
  --callers;
  return lock;
}

void Engine::State::Start() {
  const std::lock_guard lock(mutex);
  RefuseAfterEnd();
  if (std::exchange(started, true)) return;
  thread = std::thread([this] { Work(); });
}

void Engine::State::Work() {
  for (;;) {
    {
      std::unique_lock lock(mutex);
      const auto inbox = [this] { return !submitted.empty() || !cancellations.empty(); };
      changed.wait(lock, [&] { return ending != Ending::kNo || !idle || inbox(); });
      if (ending == Ending::kNow || (ending == Ending::kWhenDone && idle && !inbox())) return;
    }
    while (callers > 0) std::this_thread::yield();
    std::unique_lock working(core_mutex);
    const Left left = WorkOnce();
    working.unlock();
    if (left == Left::kUndone) std::this_thread::sleep_for(kMemoryPause);
  }
}

// REQUIRES: core_mutex. Whatever is thrown ends the answers under way and not the engine.
Engine::State::Left Engine::State::WorkOnce() noexcept {
  bool more = true, done = true;
  try {
    TakeInbox();
    try {
      more = core.Step();
    } catch (...) {
      failure = std::current_exception();
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

void Engine::State::Shutdown(Unfinished unfinished) {
  const bool finish = unfinished == Unfinished::kFinish;
  {
    const std::lock_guard lock(mutex);
    if (ending != Ending::kNo) return;
    ending = finish ? Ending::kWhenDone : Ending::kNow;
    changed.notify_all();
  }
  if (thread.joinable()) {
    thread.join();
  } else {
    while (finish && Step()) {
    }
  }
  if (!finish) CancelAll();
}

// For the end: throws nothing.
void Engine::State::CancelAll() {
  const std::lock_guard working(core_mutex);
  for (int i = 0; i < kLastTries; ++i) {
    try {
      TakeInbox();
      core.EndAll(FinishReason::kCancelled, "");
      return Deliver();
    } catch (...) {
      failure = std::current_exception();
    }
    std::this_thread::sleep_for(kMemoryPause);
  }
}

bool Engine::State::WaitUntilIdle(double seconds) {
  std::unique_lock lock(mutex);
  return changed.wait_for(lock, std::chrono::duration<double>(seconds),
                          [this] { return idle && submitted.empty() && cancellations.empty(); });
}

Receipt Engine::State::MakeReceipt() {
  const std::unique_lock working = LockCore();
  return core.MakeReceipt();
}

std::vector<ForestNode> Engine::State::Picture(std::span<const RequestId> requests) {
  const std::unique_lock working = LockCore();
  return core.Picture(requests);
}

std::string Engine::State::Explain() {
  const std::unique_lock working = LockCore();
  TakeInbox();
  std::string text;
  try {
    text = core.Explain();
  } catch (...) {
    failure = std::current_exception();
    throw;
  }
  Deliver();
  return text;
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
bool Engine::WaitUntilIdle(double seconds) { return state_->WaitUntilIdle(seconds); }

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

int Engine::waiting() const {
  const std::lock_guard lock(state_->mutex);
  return static_cast<int>(state_->waiting + state_->inbox.answers);
}

int Engine::running() const {
  const std::lock_guard lock(state_->mutex);
  return state_->running;
}

int Engine::wanted_waiting() const { return state_->core.max_streams(); }
Receipt Engine::receipt() const { return state_->MakeReceipt(); }
std::string Engine::Explain() { return state_->Explain(); }
std::vector<ForestNode> Engine::Picture(std::span<const RequestId> requests) const {
  return state_->Picture(requests);
}

}  // namespace banyan
