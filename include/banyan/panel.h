// Several contexts that generate one answer together (experts, docs/rag.md). Each expert has read
// its own document; the prior has read none. With the scores s_k of expert k and s_0 of the prior,
// which are logits or their log-softmax,
//
//   z_k = (1 + beta_k) s_k - beta_k s_0,
//
// and the next token, with which all of them continue, comes from
//
//   kMax       max_k (z_k + gamma log r_k)
//   kMixture   log sum_k w_k softmax(z_k)          w_k = r_k^gamma / sum_j r_j^gamma
//   kProduct   sum_k w_k log softmax(z_k)
//
// An expert proposes only tokens that it finds plausible itself: p_k(v) >= plausibility max p_k.
// The others come after all that are plausible, ranked by s_k without contrast; they are chosen
// only where a constraint allows nothing else. An expert that most likely says null as its first
// token does not vote at all, unless no expert would be left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/types.h"

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

// The scores by which experts are compared. Mixture and product are the same with both.
enum class PanelScores {
  kRaw,         // logits, as in the paper: a stream whose logits are all high outvotes the others
  kNormalised,  // log-softmax, not normalised again after the contrast
};
// "raw", "normalised". Throws kUsage for another name.
PanelScores ParsePanelScores(const std::string& name);
const char* PanelScoresName(PanelScores scores);

// The part of the answer on which abstaining experts do not vote.
enum class AbstentionScope {
  kAnswer,      // all of it
  kFirstToken,  // whether there is an answer; once another expert has begun one they vote too
};

struct PanelOptions {
  // False: there is no prior. The answer's own segment is the first expert, of relevance 1, and
  // nothing is contrasted: beta is 0.
  bool prior = true;
  FusionRule rule = FusionRule::kMax;
  BetaRule beta_rule = BetaRule::kExpert;
  double beta = 0.0;   // with kFixed; 0 or more
  double gamma = 2.5;  // weight of the relevance; 0 or more
  PanelScores scores = PanelScores::kRaw;
  double plausibility = 0.0;  // in [0, 1]; 0: every token is plausible
  // Experts abstain whose first token is one of null_tokens with at least this probability; in
  // [0, 1], 0: nobody does.
  double abstention = 0.0;
  std::vector<TokenId> null_tokens;
  AbstentionScope abstention_scope = AbstentionScope::kAnswer;
};

// One expert of an answer of the same request.
struct ExpertRequest {
  std::uint64_t tag = 0;   // of the answer, which has PanelOptions
  double relevance = 1.0;  // r, in (0, 1]
};

}  // namespace banyan
