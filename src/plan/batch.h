// One forward pass as arrays: which token each row feeds, at which position, where its K and V go.
// Prefill and decode are just row counts; there are no modes.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/types.h"

namespace banyan {

// Tokens of one page of KV memory; a node's keys fill whole pages, the last one perhaps in part.
inline constexpr int kPageTokens = 16;
constexpr std::int64_t PagesFor(std::int64_t tokens) {
  return (tokens + kPageTokens - 1) / kPageTokens;
}

// A row may feed a token that is still being chosen: choice `index` of those that
// Kernels::Upload is given.
constexpr TokenId ChoiceToken(std::int32_t index) { return -1 - index; }
constexpr bool IsChoice(TokenId token) { return token < 0; }
constexpr std::int32_t ChoiceOf(TokenId token) { return -1 - token; }

// Rows [row_begin, row_end) of a model whose layers keep states (kernels/states.h): they follow one
// another on a path. They go on from one state and leave the state after the last of them.
struct StateRun {
  std::int32_t row_begin = 0, row_end = 0;
  std::int32_t from = -1;  // slot of the state before the first row; -1: nothing came before
  std::int32_t to = 0;     // slot; may be the same
};

struct Batch {
  std::vector<TokenId> tokens;           // [rows] tokens, or ChoiceToken
  std::vector<std::int32_t> positions;   // [rows]
  std::vector<std::int32_t> slots;       // [rows] page * kPageTokens + offset, each at most once
  std::vector<std::int32_t> logit_rows;  // rows whose logits are wanted, ascending
  // [rows] the variant of the model that computes each (kernels/low_rank.h), or empty: all 0.
  std::vector<std::int32_t> variants;
  // All rows, in order; empty where the model keeps no states. A state that a run leaves may be
  // what later ones go on from.
  std::vector<StateRun> states;

  int rows() const { return static_cast<int>(tokens.size()); }
};

}  // namespace banyan
