// Where draft tokens come from (speculative.h): a constraint, prompt lookup or a draft model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/answer.h"
#include "banyan/constrain.h"
#include "banyan/request.h"
#include "banyan/types.h"
#include "baseline/path_runner.h"
#include "baseline/speculative.h"

namespace banyan {

// An answer that is being decoded with draft tokens.
struct DraftedStream {
  const AnswerRequest* wanted = nullptr;
  int question = -1;          // the prompt's last segment
  int tail = -1;              // where the answer's keys go; a short question is the same
  std::vector<TokenId> text;  // prompt and answer, for lookup
  std::vector<TokenId> own;   // of the tail, with tokens that have no keys yet
  std::int32_t most = 0;      // tokens of the answer
  std::optional<ConstraintState> constraint;
  std::vector<TokenId> guesses;
  std::vector<std::shared_ptr<const std::vector<std::uint32_t>>> masks;  // [guesses + 1]
  Answer answer;
  bool done = false;

  bool IsStop(TokenId token) const {
    return std::ranges::find(wanted->stop_tokens, token) != wanted->stop_tokens.end();
  }
};

// Prompt lookup: the tokens that followed the latest earlier occurrence of the text's last tokens:
// of the last `longest` of them, or of fewer, down to one, where no longer run repeats. At most
// `most`; none where the last token is new.
std::vector<TokenId> LookUpDraft(std::span<const TokenId> text, int longest, int most);

class GuessMaker {
 public:
  // `drafter` computes with options.model; null without one. All outlive this.
  GuessMaker(const DraftOptions& options, PathRunner* drafter, DraftReport& report)
      : options_(options), drafter_(drafter), report_(report) {}

  // New guesses for streams in the order of their tails.
  void Guess(std::span<DraftedStream* const> group);

 private:
  void GuessByLookup(DraftedStream& stream);
  void GuessByModel(std::span<DraftedStream* const> group);
  bool HasRoom(const DraftedStream& stream) const;
  bool AddGuess(DraftedStream& stream, std::optional<ConstraintState>& state, TokenId token);
  bool AddKnown(DraftedStream& stream, std::optional<ConstraintState>& state);

  const DraftOptions& options_;
  PathRunner* drafter_;
  DraftReport& report_;
};

}  // namespace banyan
