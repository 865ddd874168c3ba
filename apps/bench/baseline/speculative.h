// Speculative decoding, for comparison with the engine: a step feeds a stream's last token and
// draft tokens, and keeps those drafts that the model would have chosen itself. Answers are greedy,
// and have the bits of the engine's: a row's bits do not depend on how many rows a step has
// (docs/architecture.md), so a guess costs time and never changes a token.
//
// Guesses come from three sources, in this order: a constraint that leaves one token alone, then
// prompt lookup or a draft model. Streams of all requests are decoded together, over prefixes that
// are stored once, as in the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "banyan/answer.h"
#include "banyan/model.h"
#include "banyan/request.h"

namespace banyan {

struct DraftOptions {
  int tokens = 8;  // guessed for a stream and step at most; 0: none
  int lookup = 0;  // longest run of tokens that prompt lookup looks for; 0: no prompt lookup
  // A model that guesses, with the same vocabulary; null: none. Not with lookup.
  std::shared_ptr<Model> model;
};

struct DraftReport {
  double seconds = 0.0;                // all of it
  double decode_seconds = 0.0;         // after the first tokens
  std::int64_t tokens = 0;             // of answers
  std::int64_t steps = 0, rows = 0;    // of the model
  std::int64_t decode_steps = 0;       // after the first tokens
  std::int64_t draft_rows = 0;         // of the draft model
  std::int64_t guessed = 0, kept = 0;  // tokens
  // Of these, where a constraint left one token alone.
  std::int64_t known = 0;
  std::int64_t turns = 0;  // a stream's part of a step: tokens / turns is what a step gives it
};

struct DraftedAnswers {
  std::vector<Answer> answers;  // in the order of the requests, each depth first
  DraftReport report;
};

// Of the answers max_new, stop tokens, constraint and tag count; segments are read without gaps.
// Throws kUsage when the draft model's vocabulary has another size, kLimit when a path does not fit
// the model's context, kUnsupported for what it does not know: sampling, panels, skeletons.
// REQUIRES: nothing else computes with the models meanwhile.
DraftedAnswers DecodeWithDrafts(const std::shared_ptr<Model>& model,
                                std::span<const PromptSegment> requests,
                                const DraftOptions& options);

}  // namespace banyan
