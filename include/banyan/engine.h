// Many answers over shared text. Requests are trees of token segments; equal beginnings are stored,
// computed and read once; every answer is bit for bit what it would be alone.
//
//   Engine engine(model, options);
//   engine.Submit(request);            // any number of times, also between steps
//   while (engine.Step()) {
//     for (Answer& answer : engine.TakeFinished()) …
//   }
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/model.h"
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
  bool replay = true;       // a device may record steps that repeat and launch them as a whole
  bool one_by_one = false;  // each stream alone with an empty cache
};

struct SamplingOptions {
  float temperature = 0.0f;  // 0 = greedy
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  std::uint64_t seed = 0;
};

struct AnswerRequest {
  std::uint64_t tag = 0;  // the caller's; comes back with the answer
  int max_new = 64;
  std::vector<TokenId> stop_tokens;
  std::vector<std::string> stop_strings;  // need the model's text side
  SamplingOptions sampling;
  int top_logprobs = 0;
  // Random draws are keyed by (seed, request, question, sample, position), not by scheduling.
  std::uint64_t request_key = 0, question_key = 0, sample_key = 0;
  // Tokens to take instead of choosing: their logprobs score given text. max_new is ignored.
  std::vector<TokenId> forced;
  bool want_logits = false;  // the logits after the prompt, in Answer::prompt_logits
};

// One segment, the segments below it, and the answers that continue it. A segment may be empty.
struct PromptSegment {
  std::vector<TokenId> tokens;
  std::vector<PromptSegment> below;
  std::vector<AnswerRequest> answers;
};

enum class FinishReason { kStopToken, kStopString, kLength, kError };
const char* FinishReasonName(FinishReason reason);  // "stop", "stop", "length", "error"

struct ScoredToken {
  TokenId token = 0;
  float logprob = 0.0f;
};

struct Answer {
  std::uint64_t tag = 0;
  FinishReason finish = FinishReason::kLength;
  std::vector<TokenId> tokens;                // a stop token included
  std::vector<float> logprobs;                // [tokens] log-softmax of the raw logits
  std::vector<std::vector<ScoredToken>> top;  // [tokens], when asked for
  std::string text;                           // with stop strings: the text before the stop
  std::vector<float> prompt_logits;           // when asked for
  std::string error;                          // with kError: why
};

// What a run did.
struct Receipt {
  std::int64_t prompt_tokens = 0;     // of streams that began, as if every one were alone
  std::int64_t prefilled_tokens = 0;  // rows computed for prompts
  std::int64_t generated_tokens = 0;
  std::int64_t decode_rows = 0;
  std::int64_t dropped_rows =
      0;  // of them, computed before it was known that their stream had ended
  std::int64_t steps = 0;
  std::int64_t streams = 0;
  std::int64_t failed = 0;
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
  // The least time that this work, and its decode steps alone, could take at the machine's measured
  // rates; 0: unknown.
  double limit_seconds = 0.0, decode_limit_seconds = 0.0;
};

class Engine {
 public:
  Engine(std::shared_ptr<Model> model, const EngineOptions& options);
  ~Engine();

  // Throws kInput when a token is out of range or a path is empty, kLimit when a prompt is longer
  // than the context.
  void Submit(PromptSegment request);

  // Launches one forward pass, if there is something to compute, and takes the tokens of one: of
  // the same, or with a step ahead of the one before. False when nothing is left to do. Throws
  // kLimit when memory is refused even for the smallest step.
  bool Step();
  std::vector<Answer> TakeFinished();

  int waiting() const;  // streams submitted and not yet admitted
  int running() const;
  // The tags of what waits, and a way to take some of it back: for callers that want to stop early.
  std::vector<std::uint64_t> WaitingTags() const;
  void CancelWaiting(const std::function<bool(std::uint64_t tag)>& unwanted);
  // How many waiting streams keep the engine busy: submit more when waiting() falls below it.
  int wanted_waiting() const;
  // The first call of a model measures the machine for limit_seconds: some tens of milliseconds.
  Receipt receipt() const;
  // What is shared, what was chosen and why, the predicted cost, for what is submitted now.
  std::string Explain();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan
