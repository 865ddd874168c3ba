// Several contexts that write one answer together (experts, docs/rag.md). Each expert has read
// another document; the prior has read none. With raw logits s_k of expert k and s_0 of the prior,
//
//   z_k = (1 + beta_k) s_k - beta_k s_0,
//
// and the next token, which all of them go on with, comes from
//
//   kMax       max_k (z_k + gamma log r_k)
//   kMixture   log sum_k w_k softmax(z_k)          w_k = r_k^gamma / sum_j r_j^gamma
//   kProduct   sum_k w_k log softmax(z_k)
#pragma once

#include <cstdint>
#include <string>

namespace banyan {

enum class FusionRule { kMax, kMixture, kProduct };
// "max", "mixture", "product". Throws kUsage for another name.
FusionRule ParseFusionRule(const std::string& name);
const char* FusionRuleName(FusionRule rule);

// Where beta comes from: the divergence of an expert from the prior at the first token (Jensen and
// Shannon's, in bits), fixed for the rest of the answer.
enum class BetaRule {
  kExpert,  // each expert's own
  kShared,  // their mean
  kFixed,   // given
};

struct PanelOptions {
  FusionRule rule = FusionRule::kMax;
  BetaRule beta_rule = BetaRule::kExpert;
  double beta = 0.0;   // with kFixed; 0 or more
  double gamma = 2.5;  // weight of the relevance; 0 or more
};

// One expert of an answer of the same request.
struct ExpertRequest {
  std::uint64_t tag = 0;   // of the answer, which has PanelOptions
  double relevance = 1.0;  // r, in (0, 1]
};

}  // namespace banyan
