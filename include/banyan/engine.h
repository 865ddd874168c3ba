// Generates many answers over shared text. Requests are trees of token segments. Equal prefixes are
// computed once. Every answer is bit for bit what it would be alone.
//
// Driven by the caller, for work that is known in advance:
//
//   Engine engine(model, options);
//   engine.Submit(request);            // any number of times, also between steps
//   while (engine.Step()) {
//     for (Answer& answer : engine.TakeFinished()) …
//   }
//
// Driven by its own thread, for work that arrives over time:
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
  kStacked,      // all rows of a stack attend to all its keys, under a mask
  kTree,         // every shared segment read once per block of rows
  kAuto,         // per node, whichever of paged and tree costs less
  kSequential,   // comparison only: all questions in one prompt, answers one after another
  kNoAttention,  // comparison only: attention left out; wrong answers, the throughput ceiling
};
// Throws kUsage with the list of names.
Strategy ParseStrategy(const std::string& name);
const char* StrategyName(Strategy strategy);

struct EngineOptions {
  Strategy strategy = Strategy::kAuto;
  // tree: only the segments of the first levels are shared; those below are computed, stored and
  // read by every stream for itself. 0 = all.
  int share_levels = 0;
  int contexts_per_stack = 1;   // stacked
  int questions_per_stack = 0;  // stacked; 0 = all of a context
  int stacks = 8;               // stacked: how many at a time
  // stacked: every stack computes and stores its own copy of the instruction and of its contexts,
  // as Parallel Prompting does; false = equal text once for all stacks.
  bool private_stacks = false;
  // Of every device of the model, as are the next two; places that share a device share its memory.
  int batch_rows = 0;   // rows of one step; 0 = the backend's choice, more for many streams
  int max_streams = 0;  // at once, at most batch_rows; 0 = the backend's choice
  // Bytes; 0 = a quarter of the machine's memory, or on a device the free memory less what steps
  // need, but at most what the streams could fill.
  std::int64_t kv_memory = 0;
  // Steps launched before the tokens of the previous one are known, 0 or 1. The answers are the
  // same either way. -1 = the backend's choice.
  int steps_ahead = -1;
  // Caps the rows of a step that prefills beside decoding streams: a smaller cap gives lower token
  // latency. Prompts get at least a quarter of the rows, and a long prompt leaves half of that to
  // shorter, later ones. 0 = the backend's choice; -1 = as many as fit, prompts in order of
  // arrival: for batch jobs, where only the total time matters.
  int mixed_rows = 0;
  // Back-pressure: limits on waiting work, including answers that have not been taken yet; 0 = a
  // million answers, 2^28 tokens. If nothing waits, a request of any size is accepted.
  int max_waiting = 0;
  std::int64_t max_waiting_tokens = 0;
  // kAuto: what reading shared text together or apart costs is measured on this machine, once and
  // in at most half a second, and kept in the cache directory. False, and of very small models:
  // built-in costs. The answers are the same.
  bool measure_costs = true;
  bool replay = true;       // a device may record steps that repeat and launch them as a whole
  bool one_by_one = false;  // each stream alone with an empty cache
  // Prefixes of prompts are loaded from this store where possible; null: no store. Several engines
  // may share one. Not with kNoAttention, whose keys are wrong.
  std::shared_ptr<KvStore> kv_store;
  bool kv_save = false;  // segments that say so (PromptSegment::keep_as) are saved there
  // Where the store cannot keep the model's KV, the engine does without it; otherwise it refuses.
  bool kv_store_optional = false;
};

// What one device did of a run.
struct DeviceShare {
  std::string name;                     // as Model::devices
  std::int64_t requests = 0;            // that it took
  std::int64_t requests_of_others = 0;  // of them, meant for a device that had no room
  std::int64_t prefilled_tokens = 0, generated_tokens = 0;
  double busy_seconds = 0.0;  // of its steps
  std::int64_t weight_bytes = 0, kv_bytes = 0;
};

// Work of a job that is ahead.
struct WorkAhead {
  double documents = 0;  // that may go to different devices
  double answers = 0;
  double prompt_tokens = 0;     // as if every answer were asked alone
  double computed_tokens = 0;   // of prompts, with sharing
  double generated_tokens = 0;  // of all answers
};
// What so many devices, like the first of the model, would take for it. Computed from the rates of
// this machine and an assumed link between devices, not measured.
struct DevicesPrediction {
  int devices = 1;
  double seconds_by_document = 0.0;  // the whole model on each, documents divided
  double seconds_in_shards = 0.0;    // the model divided; 0 for one device
  std::int64_t weight_bytes = 0;     // of the whole model
  std::int64_t shard_bytes = 0;      // of the largest shard
};

// A device that failed: its answers ended with kError, and it takes no more while others can.
struct DeviceFailure {
  std::string device, why;
};

// The report of a run. With several devices, counts, times of the host and times of steps are sums
// over them, which work at the same time; the limits are for all of them together.
struct Receipt {
  std::int64_t prompt_tokens = 0;     // of streams that began, as if every one were alone
  std::int64_t prefilled_tokens = 0;  // rows computed for prompts
  // Of prompts that begin like others, by fewer tokens than make a shared segment: their keys were
  // copied instead.
  std::int64_t copied_tokens = 0;
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
  // Streams that were preempted by earlier ones, each at most once, and the tokens of their answers
  // that were computed again.
  std::int64_t preempted = 0, recomputed_tokens = 0;
  std::int64_t refused_steps = 0;  // memory for the step was refused: smaller ones were made
  // The host's time: deciding and planning; launching steps on the backend (a CPU computes them
  // synchronously); waiting for sampled tokens and reading them.
  double plan_seconds = 0.0, forward_seconds = 0.0, choose_seconds = 0.0;
  double wait_seconds = 0.0;  // the part of choose_seconds in which the host only waited
  // Steps that only decode, without prefill: their number, the tokens they produced, and their
  // time, each from the end of the previous step to its own end.
  std::int64_t decode_steps = 0, decode_step_tokens = 0;
  double decode_step_seconds = 0.0, prefill_step_seconds = 0.0;
  std::int64_t kv_bytes_peak = 0, kv_bytes_total = 0;  // with states
  // Of models whose layers keep states: the part of these that is states.
  std::int64_t state_bytes_peak = 0, state_bytes_total = 0;
  std::int64_t kv_bytes_held = 0;  // by running streams, now; the rest is free or cached
  // Latencies: from Submit to an answer's first token, and from one token to the next. Medians and
  // 99th percentiles, accurate within 5 %.
  double first_token_median = 0.0, first_token_p99 = 0.0;
  double next_token_median = 0.0, next_token_p99 = 0.0;
  // The roofline: the least time for this work, and for its decode steps alone, at the machine's
  // measured rates; 0: unknown.
  double limit_seconds = 0.0, decode_limit_seconds = 0.0;
  // What planning predicts for the steps that were launched: attention by its costs, products at
  // the measured rates; 0: unknown. Beside the steps' own time it is the prediction's error.
  double predicted_seconds = 0.0;
  std::vector<DeviceShare> devices;  // [devices of the model]
  std::int64_t steps_apart = 0;  // kAuto: steps in which some shared text was read once per stream
};

struct SubmitOptions {
  int priority = 0;  // higher ones are admitted first, and keep their memory longer
  // Where its events arrive; null: the engine's own queue.
  std::shared_ptr<AnswerQueue> queue;
  // Only requests of the same scope share computed data. Use it for tenants that must not learn
  // about each other's requests from response times.
  std::uint64_t scope = 0;
};

// A run of text that requests have in memory, for visualisation.
struct ForestNode {
  std::uint64_t id = 0, parent = 0;  // never reused; 0: none
  std::int32_t tokens = 0;
  std::int32_t computed = 0;  // of them, keys that are in memory
  std::int32_t readers = 0;   // answers of requests that run now; ended and waiting ones count
  int level = 0;          // of the declared segment that it is part of, from 0; of a tail one more
  bool growing = false;   // an answer that is being generated
  RequestId request = 0;  // the first of those that have it
};

enum class Unfinished { kFinish, kCancel };

// Threads: unless stated otherwise, every method may be called from any thread at any time. One
// thread at a time does the work: the engine's own after Start, otherwise the caller of Step. A
// step makes no callbacks; events wait in queues until they are taken.
//
// Errors: an answer without an allowed token, or one that can never get enough memory, ends with
// kError. The other answers continue. Where a step fails, for lack of memory or by its device,
// every answer that was submitted ends with kError and the reason, whoever made the step: Step
// throws nothing, and the engine goes on with later requests.
//
// Memory: a stream takes pages as it grows. When no page is left, the stream that arrived last is
// preempted: it frees its pages and is recomputed later, with the same bits. A stream is preempted
// at most once, because on its return it reserves all the pages it can need. No token's keys are
// computed more than twice for one stream, and the first stream in line always continues.
//
// Devices: where the model has several, a request is computed by one of them, which one does not
// show in its answers. Requests that begin alike go to the same device as long as that does not
// keep another one waiting.
//
// Lifetime: the engine keeps its model and its KV store alive, and the queues of requests that have
// not ended. Several engines may share a model if they do not run steps at the same time.
class Engine {
 public:
  Engine(std::shared_ptr<Model> model, const EngineOptions& options);
  ~Engine();  // Shutdown(kCancel)

  // --- Asking
  // Throws kInput when a token is out of range, a path is empty or a segment begins before its
  // parent ends; kLimit when a path ends beyond the model's context or a panel has more streams
  // than a step has rows of logits. Returns nothing, and leaves the request unchanged, when too
  // much work is waiting already.
  [[nodiscard]] std::optional<RequestId> TrySubmit(PromptSegment& request,
                                                   const SubmitOptions& options = {});
  // The same, but blocks until there is room. Throws kLimit in an engine without its own thread,
  // where no room would ever appear.
  RequestId Submit(PromptSegment request, const SubmitOptions& options = {});
  // Ends all unfinished answers of the request, or those with the tag, with kCancelled and the
  // tokens generated so far. Their memory is free when this returns or, during a step, at the end
  // of that step. Does nothing for a finished or unknown request.
  void Cancel(RequestId request);
  void Cancel(RequestId request, std::uint64_t tag);

  // --- Working
  // Launches one forward pass, if there is work, and reads the tokens of one pass: the same one or,
  // with a step ahead, the previous one. Returns false when no work is left. REQUIRES: no Start.
  bool Step();
  // Starts a thread that runs steps whenever there is work.
  void Start();
  // Accepts no more requests, finishes or cancels the others, and ends the thread. Events can still
  // be taken afterwards. Call it once; the destructor calls it too.
  void Shutdown(Unfinished unfinished);
  // Waits until no work is left, at most so long; true when none is left. REQUIRES: Start.
  bool WaitUntilIdle(double seconds);

  // --- Answers, of requests without a queue of their own
  std::vector<AnswerEvent> TakeEvents(double seconds = 0.0);
  std::vector<Answer> TakeFinished();  // finished answers only

  // --- State
  int waiting() const;  // streams submitted and not running
  int running() const;
  // How many waiting streams keep the engine busy: submit more when waiting() falls below it.
  int wanted_waiting() const;
  // The first device whose step failed for another reason than memory, if any has.
  std::optional<DeviceFailure> failure() const;
  // The first call of a model measures the machine for limit_seconds: some tens of milliseconds.
  Receipt receipt() const;
  // What is shared, what was chosen, and the predicted cost of the work submitted so far.
  std::string Explain();
  // Predictions for 1, 2, 4 and 8 devices and for as many as the model has; empty where rates are
  // not known (reference).
  std::vector<DevicesPrediction> PredictDevices(const WorkAhead& work) const;
  // The nodes that these requests have in memory now, parents first. Finished and waiting requests
  // have none.
  std::vector<ForestNode> Picture(std::span<const RequestId> requests) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan
