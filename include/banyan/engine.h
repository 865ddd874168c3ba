// Many answers over shared text. Requests are trees of token segments; equal beginnings are stored,
// computed and read once; every answer is bit for bit what it would be alone.
//
// Driven by the caller, for work that is all there:
//
//   Engine engine(model, options);
//   engine.Submit(request);            // any number of times, also between steps
//   while (engine.Step()) {
//     for (Answer& answer : engine.TakeFinished()) …
//   }
//
// Driven by a thread of its own, for work that comes and goes:
//
//   engine.Start();
//   const RequestId id = engine.Submit(request);
//   for (const AnswerEvent& event : engine.TakeEvents(/*seconds=*/1.0)) …
//   engine.Cancel(id);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/answer.h"
#include "banyan/kv_store.h"
#include "banyan/model.h"
#include "banyan/request.h"
#include "banyan/types.h"

namespace banyan {

enum class Strategy {
  kFlat,         // each stream alone, its whole prefix private: the baseline and the oracle
  kPaged,        // prefix stored once, read once per stream
  kStacked,      // all rows of a stack meet all its keys, under a mask
  kTree,         // every shared segment read once for all streams under it
  kAuto,         // per node, whichever of paged and tree costs less
  kSequential,   // comparison only: all questions in one prompt, answers one after another
  kNoAttention,  // comparison only: attention left out; wrong answers, the throughput ceiling
};
// Throws kUsage with the list of names.
Strategy ParseStrategy(const std::string& name);
const char* StrategyName(Strategy strategy);

struct EngineOptions {
  Strategy strategy = Strategy::kAuto;
  int share_levels = 0;         // tree: only this many levels are shared; 0 = all
  int contexts_per_stack = 1;   // stacked
  int questions_per_stack = 0;  // stacked; 0 = all of a context
  int stacks = 8;               // stacked: how many at a time
  int batch_rows = 0;           // rows of one step; 0 = the backend's choice, more for many streams
  int max_streams = 0;          // at once, at most batch_rows; 0 = the backend's choice
  // Bytes; 0 = a quarter of the machine's memory, or on a device what is free there less what steps
  // need, but at most what the streams could fill.
  std::int64_t kv_memory = 0;
  // Steps handed to the backend before the tokens of the latest one are known, 0 or 1; the answers
  // are the same. -1 = the backend's choice.
  int steps_ahead = -1;
  // Rows of a step that computes prompts beside streams that write: fewer let tokens come faster.
  // Prompts get at least a quarter of them, and a long prompt leaves half of that to shorter ones
  // that came later. 0 = the backend's choice; -1 = as many as fit, prompts in order of arrival:
  // for jobs, where only the end counts.
  int mixed_rows = 0;
  // Back-pressure: what may wait, with answers that nobody has taken yet; 0 = a million answers,
  // 2^28 tokens. A request is taken whole when nothing waits, however large it is.
  int max_waiting = 0;
  std::int64_t max_waiting_tokens = 0;
  bool replay = true;       // a device may record steps that repeat and launch them as a whole
  bool one_by_one = false;  // each stream alone with an empty cache
  // What prompts begin with is loaded from here where it can be; null: nothing is. Several engines
  // may share one. Not with kNoAttention, whose keys are wrong.
  std::shared_ptr<KvStore> kv_store;
  bool kv_save = false;  // segments that say so (PromptSegment::keep_as) are saved there
};

// What a run did.
struct Receipt {
  std::int64_t prompt_tokens = 0;     // of streams that began, as if every one were alone
  std::int64_t prefilled_tokens = 0;  // rows computed for prompts
  std::int64_t loaded_tokens = 0;     // of prompts, whose keys came from the KV store instead
  std::int64_t saved_tokens = 0;      // handed to the store
  std::int64_t damaged_segments = 0;  // of the store, met and not used
  std::int64_t generated_tokens = 0;
  std::int64_t decode_rows = 0;
  std::int64_t dropped_rows =
      0;  // of them, computed before it was known that their stream had ended
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t failed = 0;
  std::int64_t cancelled = 0;  // answers
  // Streams that gave their memory back to earlier ones, each at most once, and the tokens of their
  // answers that were computed again.
  std::int64_t preempted = 0, recomputed_tokens = 0;
  std::int64_t refused_steps = 0;  // memory for the step was refused: smaller ones were made
  // The host's time: deciding and planning; handing steps to the backend (which computes there and
  // then on a CPU); waiting for chosen tokens and taking them.
  double plan_seconds = 0.0, forward_seconds = 0.0, choose_seconds = 0.0;
  double wait_seconds = 0.0;  // the part of choose_seconds in which the host only waited
  // Steps that only extend streams, apart from those that compute prompts: how many, the tokens
  // they gave, and the time of each from the end of the step before it to its own end.
  std::int64_t decode_steps = 0, decode_step_tokens = 0;
  double decode_step_seconds = 0.0, prefill_step_seconds = 0.0;
  std::int64_t kv_bytes_peak = 0, kv_bytes_total = 0;
  std::int64_t kv_bytes_held = 0;  // by running streams, now; the rest is free or cached
  // What people wait for: from Submit to an answer's first token, and from one token to the next.
  // Medians and 99th percentiles, within 5 %.
  double first_token_median = 0.0, first_token_p99 = 0.0;
  double next_token_median = 0.0, next_token_p99 = 0.0;
  // The least time that this work, and its decode steps alone, could take at the machine's measured
  // rates; 0: unknown.
  double limit_seconds = 0.0, decode_limit_seconds = 0.0;
};

struct SubmitOptions {
  int priority = 0;  // higher ones are admitted first, and keep their memory longer
  // Where its events arrive; null: the engine's own queue.
  std::shared_ptr<AnswerQueue> queue;
  // Only requests of the same scope share what is computed: for tenants that must not learn from
  // the time an answer takes what others have asked.
  std::uint64_t scope = 0;
};

// A stretch of text that requests have in memory, for whoever draws it.
struct ForestNode {
  std::uint64_t id = 0, parent = 0;  // no two nodes ever have the same; 0: none
  std::int32_t tokens = 0;
  std::int32_t computed = 0;  // of them, keys that are in memory
  std::int32_t readers = 0;   // answers of requests that run now; ended and waiting ones count
  int level = 0;          // of the declared segment that it is part of, from 0; of a tail one more
  bool growing = false;   // an answer that is being written
  RequestId request = 0;  // the first of those that have it
};

enum class Unfinished { kFinish, kCancel };

// Threads: every method may be called from any thread at any moment, unless it says otherwise. The
// work itself is done by one thread at a time: the engine's own after Start, else whoever calls
// Step. Nothing is called back from inside a step; news waits in queues until it is taken.
//
// One answer fails alone: logits without a token to choose or memory that there will never be end
// that answer with kError, and the others go on.
//
// Memory: a stream takes pages as it grows. When there are none left, the stream that came last
// gives back its own and is computed again later, with the same bits. That happens to a stream at
// most once: when it comes back, it gets all it can need at once. So no token's keys are computed
// more than twice for one stream, and the first stream in line always goes on.
class Engine {
 public:
  Engine(std::shared_ptr<Model> model, const EngineOptions& options);
  ~Engine();  // Shutdown(kCancel)

  // --- Asking
  // Throws kInput when a token is out of range, a path is empty or a segment begins before the one
  // above it ends; kLimit when a path ends beyond the model's context or a panel has more streams
  // than a step has rows of logits. When too much waits already: nothing, and the request is as it
  // was.
  [[nodiscard]] std::optional<RequestId> TrySubmit(PromptSegment& request,
                                                   const SubmitOptions& options = {});
  // The same, but waits until there is room. In an engine without a thread of its own nobody would
  // make any: kLimit.
  RequestId Submit(PromptSegment request, const SubmitOptions& options = {});
  // Ends every answer of the request, or those with the tag, that has not ended yet, with
  // kCancelled and the tokens there are. Their memory is free when this returns, or, while a step
  // is being made, at its end. A request that is over or unknown: nothing happens.
  void Cancel(RequestId request);
  void Cancel(RequestId request, std::uint64_t tag);

  // --- Working
  // Launches one forward pass, if there is something to compute, and takes the tokens of one: of
  // the same, or with a step ahead of the one before. False when nothing is left to do. Throws
  // kLimit when memory is refused even for the smallest step: nothing is lost, and the next call
  // tries again. REQUIRES: no Start.
  bool Step();
  // Begins a thread that makes steps whenever there is something to do. An error of a step ends
  // every answer that is under way with it; the thread goes on with what is submitted next.
  void Start();
  // Takes no more requests; finishes or cancels the others, whose events can still be taken, and
  // ends the thread. Once; also done by the destructor.
  void Shutdown(Unfinished unfinished);
  // Waits until nothing is left to do, at most so long; true when it is so. REQUIRES: Start.
  bool WaitUntilIdle(double seconds);

  // --- Answers, of requests without a queue of their own
  std::vector<AnswerEvent> TakeEvents(double seconds = 0.0);
  std::vector<Answer> TakeFinished();  // the ends alone

  // --- How it stands
  int waiting() const;  // streams submitted and not running
  int running() const;
  // How many waiting streams keep the engine busy: submit more when waiting() falls below it.
  int wanted_waiting() const;
  // The first call of a model measures the machine for limit_seconds: some tens of milliseconds.
  Receipt receipt() const;
  // What is shared, what was chosen and why, the predicted cost, for what is submitted now.
  std::string Explain();
  // What these requests have in memory now, nodes above others first; nothing of requests that are
  // over or wait.
  std::vector<ForestNode> Picture(std::span<const RequestId> requests) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan
