// What is asked of an engine: a tree of token segments, and the answers that continue them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/panel.h"
#include "banyan/types.h"

namespace banyan {

class Constraint;  // constrain.h

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
  // What the answer's text must match; null: anything. The constraint is made for the model's
  // tokenizer, with stop_tokens as its end tokens: they come exactly where the text may end, and
  // the answer ends by itself where nothing else may come.
  std::shared_ptr<const Constraint> constraint;
  // The answer is written by the experts of its request that name its tag, in the order of the
  // tree; its own segment is the prior. Its logprobs are of the fused logits.
  std::optional<PanelOptions> panel;
  bool want_logits = false;  // the logits after the prompt, in Answer::prompt_logits
  bool stream = false;       // an event for every token, not only for the end
};

// One segment, the segments below it, and the answers that continue it or are written with it. A
// segment may be empty.
struct PromptSegment {
  std::vector<TokenId> tokens;
  std::vector<PromptSegment> below;
  std::vector<AnswerRequest> answers;
  std::vector<ExpertRequest> experts;  // that read this segment and those above it
  // Where it begins; nothing: right after the segment above. A later place leaves a gap: room in
  // which answers to the segment above may stand. What counts against the model's context is where
  // a path ends, not how many tokens it has.
  std::optional<std::int32_t> first_position;
  // Not empty: its keys and values, and those of all segments above it, are worth keeping in the
  // engine's KV store under this label, if it has one to save to.
  std::string keep_as;
  // It and all segments below it, each the only one under the one above and each with one answer,
  // are the pieces of a template with a value after every piece. The values are written together, a
  // token each in turn: a value sees those above it as far as they were written when its own token
  // was, and never changes what the template is. Between a piece and the next there must be a gap
  // in which the value has room. Without it the answers of such a chain do not see one another.
  // Values may have experts, all of them as many: the k-th of each value is a piece below the k-th
  // of the value before, with the same room between them, and sees what was written as if it were
  // the value of its own template.
  bool skeleton = false;
  // Of a request's first segment: the adapter that computes all of it, by its name in
  // LoadOptions::adapters; empty: the model without one. Requests share what is computed with those
  // of the same adapter alone.
  std::string adapter;
};

}  // namespace banyan
