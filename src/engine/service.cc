#include "engine/service.h"

#include <chrono>
#include <utility>

#include "base/error.h"

namespace banyan {
namespace {

constexpr std::int64_t kMostWaiting = 1'000'000;
constexpr std::int64_t kMostWaitingTokens = std::int64_t{1} << 28;

}  // namespace

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
  // Checked and taken apart without a lock: a large request holds nobody up.
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
      // Answers that are taken from a queue do not wake anybody here.
      changed.wait_for(lock, std::chrono::milliseconds(5));
    }
    RefuseAfterEnd();
    promised.answers += size.answers;
    promised.tokens += size.tokens;
  }
  const std::int32_t variant = model->parts().VariantOf(request.adapter);
  const std::shared_ptr<RequestTree> tree = MakeRequestTree(request, sequential);
  tree->variant = variant;
  tree->priority = submit.priority;
  tree->scope = submit.scope;
  tree->queue = submit.queue;
  const std::lock_guard lock(mutex);
  promised.answers -= size.answers;
  promised.tokens -= size.tokens;
  RefuseAfterEnd();
  tree->id = ++last_request;
  tree->first_number = next_number;
  next_number += tree->answers.size();
  tree->submitted = RequestTree::Clock::now();
  inbox.answers += static_cast<std::int64_t>(tree->streams.size());
  inbox.tokens += tree->tokens;
  submitted.push_back(tree);
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
  // Nobody works: done at once. Somebody does: done before the next step.
  const std::unique_lock working(core_mutex, std::try_to_lock);
  if (!working) return;
  TakeInbox();
  Deliver();
}

// REQUIRES: core_mutex.
void Engine::State::TakeInbox() {
  std::vector<std::shared_ptr<RequestTree>> requests;
  std::vector<Cancellation> cancelled;
  {
    const std::lock_guard lock(mutex);
    requests.swap(submitted);
    cancelled.swap(cancellations);
    // Until the core says how many wait, they count there.
    waiting += inbox.answers;
    waiting_tokens += inbox.tokens;
    inbox = {};
    idle = idle && requests.empty();
  }
  for (std::shared_ptr<RequestTree>& request : requests) core.Accept(std::move(request));
  for (const Cancellation& wanted : cancelled) core.Cancel(wanted.request, wanted.tag);
}

// REQUIRES: core_mutex.
void Engine::State::Deliver() {
  std::vector<AnswerEvent> events;
  std::shared_ptr<AnswerQueue> queue;
  const auto put = [&] {
    if (!events.empty()) (queue ? *queue : *own_queue).Put(std::exchange(events, {}));
  };
  for (auto& [to, event] : core.TakeDeliveries()) {
    if (to != queue) put();
    queue = to;
    events.push_back(std::move(event));
  }
  put();
  const std::lock_guard lock(mutex);
  waiting = core.waiting();
  waiting_tokens = core.waiting_tokens();
  running = core.writing();
  idle = core.idle();
  changed.notify_all();
}

bool Engine::State::Step() {
  const std::unique_lock working = LockCore();
  TakeInbox();
  bool more = false;
  try {
    more = core.Step();
  } catch (...) {
    Deliver();
    throw;
  }
  Deliver();
  return more;
}

// A mutex is not fair: whoever works lets others in first.
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
    const std::lock_guard working(core_mutex);
    TakeInbox();
    try {
      core.Step();
    } catch (const std::exception& error) {
      core.EndAll(FinishReason::kError, error.what());
    }
    Deliver();
  }
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
  if (finish) return;
  const std::lock_guard working(core_mutex);
  TakeInbox();
  core.EndAll(FinishReason::kCancelled, "");
  Deliver();
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
  std::string text = core.Explain();
  Deliver();
  return text;
}

}  // namespace banyan
