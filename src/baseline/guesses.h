// What streams may be going to write: the sources of guesses (speculative.h).
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "baseline/drafted_stream.h"
#include "baseline/path_runner.h"
#include "baseline/speculative.h"

namespace banyan {

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
