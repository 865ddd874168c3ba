// Fusing logits: several experts (each has read another context) and a prior (which has read none)
// write one stream together. With raw logits s_k of expert k and s_0 of the prior:
//
//   contrast   z_k = (1 + beta_k) s_k - beta_k s_0
//   kMax       fused(v) = max_k (z_k(v) + gamma log r_k)
//   kMixture   fused(v) = log sum_k w_k p_k(v)          p_k = softmax(z_k)
//   kProduct   fused(v) = sum_k w_k log p_k(v)          w_k = r_k^gamma / sum_j r_j^gamma
//
// The next token is chosen from the fused row as from any other. The functions are the arithmetic
// for backends whose logits lie in host memory: double, rounded once. A device backend writes its
// own; kMax has the same bits everywhere. NaN counts as minus infinity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/types.h"

namespace banyan {

enum class FusionRule { kMax, kMixture, kProduct };

struct ExpertRow {
  std::int32_t row = 0;    // of the logits
  double beta = 0.0;       // contrast with the prior
  double relevance = 1.0;  // r, in (0, 1]
};

// One panel: the experts of one stream. Rows may serve several panels.
struct PanelRow {
  std::int32_t prior = 0;  // row of the logits
  FusionRule rule = FusionRule::kMax;
  double gamma = 2.5;                  // weight of the relevance
  std::span<const ExpertRow> experts;  // at least one
};

// An expert's constants: what is added to z_k (kMax: gamma log r_k) or to log p_k (log w_k), and
// w_k.
struct ExpertTerm {
  std::int32_t row = 0;
  double beta = 0.0;
  double bias = 0.0;
  double weight = 1.0;
};
std::vector<ExpertTerm> TermsOf(const PanelRow& panel);

// Logits in host memory.
struct LogitRows {
  const float* values = nullptr;
  std::int64_t stride = 0, columns = 0;
  std::span<const float> Row(std::int64_t row) const {
    return {values + row * stride, static_cast<size_t>(columns)};
  }
};

// out [columns] = the panel's fused logits.
void FusePanel(const LogitRows& logits, const PanelRow& panel, std::span<float> out);

// Which expert (counted from 0, ties take the lowest) gave `token` its place: the largest
// z_k(token) + gamma log r_k by kMax, else the largest w_k p_k(token).
int WinningExpert(const LogitRows& logits, const PanelRow& panel, TokenId token);

struct RowPair {
  std::int32_t first = 0, second = 0;
};

// Jensen-Shannon divergence of the softmax of two rows, in bits: 0 for equal ones, at most 1.
double Divergence(std::span<const float> a, std::span<const float> b);

}  // namespace banyan
