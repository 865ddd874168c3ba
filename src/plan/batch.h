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

struct Batch {
  std::vector<TokenId> tokens;           // [rows] tokens, or ChoiceToken
  std::vector<std::int32_t> positions;   // [rows]
  std::vector<std::int32_t> slots;       // [rows] page * kPageTokens + offset, each at most once
  std::vector<std::int32_t> logit_rows;  // rows whose logits are wanted, ascending
  // [rows] the variant of the model that computes each (kernels/low_rank.h), or empty: all 0.
  std::vector<std::int32_t> variants;

  int rows() const { return static_cast<int>(tokens.size()); }
};

}  // namespace banyan
