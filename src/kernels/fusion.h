// Fusing logits: several experts (each has read another context) and a prior (which has read none)
// write one stream together (banyan/panel.h).
//
// The next token is chosen from the fused row as from any other. The functions are the arithmetic
// for backends whose logits lie in host memory: double, rounded once. A device backend writes its
// own; kMax has the same bits everywhere. NaN counts as minus infinity.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/panel.h"
#include "banyan/types.h"

namespace banyan {

struct ExpertRow {
  std::int32_t row = 0;    // of the logits
  double beta = 0.0;       // contrast with the prior
  double relevance = 1.0;  // r, in (0, 1]
};

// Where the betas of a panel come from.
enum class BetaSource {
  kGiven,     // ExpertRow::beta
  kMeasured,  // each expert's divergence from the prior in these very rows
  kMean,      // the mean of these
  kEarlier,   // what an earlier choice of the same panel measured and perhaps nobody has taken yet
};

// One panel: the experts of one stream. Rows may serve several panels.
struct PanelRow {
  std::int32_t prior = 0;  // row of the logits
  FusionRule rule = FusionRule::kMax;
  double gamma = 2.5;                     // weight of the relevance
  std::span<const ExpertRow> experts;     // at least one
  BetaSource betas = BetaSource::kGiven;  // Kernels::Choose alone knows others
  std::int32_t earlier_choice = -1;       // with kEarlier: which of them
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

// The same for tokens [first, first + out.size()).
void FusePanelPart(const LogitRows& logits, const PanelRow& panel, std::int64_t first,
                   std::span<float> out);

// Which expert (counted from 0, ties take the lowest) gave `token` its place: the largest
// z_k(token) + gamma log r_k by kMax, else the largest w_k p_k(token).
int WinningExpert(const LogitRows& logits, const PanelRow& panel, TokenId token);

struct RowPair {
  std::int32_t first = 0, second = 0;
};

// Jensen-Shannon divergence of the softmax of two rows, in bits: 0 for equal ones, at most 1.
double Divergence(std::span<const float> a, std::span<const float> b);

}  // namespace banyan
