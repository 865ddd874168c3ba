// A request to an engine: a tree of token segments, and the answers that continue them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/types.h"

namespace banyan {

// --- Panels
//
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
//
// Tokenizers divide words, numbers and names. Experts that are compared at every token may each
// write a part of one, and what they write together stands in no document ("2 April 1818"). With
// SwitchRule::kWord, the expert that begins a unit (decode/answer_words.h: a word, or a number,
// date or name of several) goes on with it alone, until it says what does not belong to the unit;
// then all experts choose what that is. With ExpertRequest::own_text, an
// expert votes only as long as its own document has what the answer says.

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

// Where another expert may go on with the answer.
enum class SwitchRule {
  kToken,  // at any token, as in the paper
  kWord,   // between words, numbers, dates and names; needs the model's text side
};
// "word", "token". Throws kUsage for another name.
SwitchRule ParseSwitchRule(const std::string& name);
const char* SwitchRuleName(SwitchRule rule);

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
  // [0, 1], 0: none does.
  double abstention = 0.0;
  std::vector<TokenId> null_tokens;
  AbstentionScope abstention_scope = AbstentionScope::kAnswer;
  SwitchRule switching = SwitchRule::kToken;
};

class Constraint;  // constrain.h

// One expert of an answer of the same request.
struct ExpertRequest {
  std::uint64_t tag = 0;   // of the answer, which has PanelOptions
  double relevance = 1.0;  // r, in (0, 1]
  // With SwitchRule::kWord, of answers that are copied (Constraint::FromCopies): the text that it
  // copies from, with runs of white space as one space. It votes as long as its text has, from
  // where a word begins, what the answer says after its last "; ". What no expert's text has, all
  // may say.
  std::string own_text = {};
};

// --- Requests

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
  // The constraint that the answer's text must match; null: none. It is compiled for the model's
  // tokenizer, with stop_tokens as its end tokens. They are allowed exactly where the text may end,
  // and the answer ends by itself where nothing else is allowed.
  std::shared_ptr<const Constraint> constraint;
  // The answer is generated by the experts of its request that name its tag, in tree order. Its own
  // segment is the prior. Its logprobs are those of the fused logits.
  std::optional<PanelOptions> panel;
  bool want_logits = false;  // the logits after the prompt, in Answer::prompt_logits
  bool stream = false;       // an event for every token, not only for the end
};

// One segment, its child segments, and the answers that continue it or are generated with it. A
// segment may be empty.
struct PromptSegment {
  std::vector<TokenId> tokens;
  std::vector<PromptSegment> below;
  std::vector<AnswerRequest> answers;
  std::vector<ExpertRequest> experts;  // that read this segment and those above it
  // First position; nothing: right after the parent segment. A later position leaves a gap, as room
  // for answers to the parent segment. The last position of a path counts against the model's
  // context, not its number of tokens.
  std::optional<std::int32_t> first_position;
  // If not empty, the keys and values of this segment and of its ancestors are saved under this
  // label in the engine's KV store, provided that the engine has one and saves
  // (EngineOptions::kv_save).
  std::string keep_as;
  // This segment and all its descendants are the pieces of a template with a value after every
  // piece. Every piece must be an only child and have one answer, its value. The values are
  // generated together, one token each in turn. A value sees the tokens that the values above it
  // had generated by then; the template never sees values. Consecutive pieces must have a gap with
  // room for the value. Without this flag, the answers of such a chain do not see each other.
  // Values may have experts, the same number each. The k-th expert of a value is a piece below the
  // k-th expert of the previous value, with the same gap, and sees the generated values as if these
  // values belonged to its own template.
  bool skeleton = false;
  // For a request's first segment: the adapter of the whole request, by its name in
  // LoadOptions::adapters; empty: the model without an adapter. Requests share computed data only
  // with requests of the same adapter.
  std::string adapter;
};

}  // namespace banyan
