// Choices of backends that choose at once, on the host.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/kernels.h"

namespace banyan {

class HostChoices : public PendingChoices {
 public:
  explicit HostChoices(std::vector<TokenChoice> choices) : choices_(std::move(choices)) {
    for (const TokenChoice& choice : choices_) {
      tokens_.push_back(choice.token);
      betas_.push_back(choice.betas);
    }
  }
  std::vector<TokenChoice> Take() override { return std::move(choices_); }

  // What was measured for a panel; empty: nothing.
  const std::vector<double>& BetasOf(std::int32_t choice) const {
    BANYAN_CHECK(choice >= 0 && static_cast<size_t>(choice) < betas_.size());
    return betas_[static_cast<size_t>(choice)];
  }

  // Puts the tokens chosen by `earlier` where `tokens` names its choices (plan/batch.h).
  // REQUIRES: `earlier` is a HostChoices, or null when no choice is named.
  static void Resolve(const PendingChoices* earlier, std::vector<TokenId>& tokens) {
    for (TokenId& token : tokens) {
      if (!IsChoice(token)) continue;
      BANYAN_CHECK(earlier != nullptr);
      const std::vector<TokenId>& chosen = static_cast<const HostChoices*>(earlier)->tokens_;
      const auto choice = static_cast<size_t>(ChoiceOf(token));
      BANYAN_CHECK(choice < chosen.size());
      token = std::max(chosen[choice], 0);  // what follows no token is of no use to anyone
    }
  }

 private:
  std::vector<TokenChoice> choices_;
  // Stay when the choices are taken.
  std::vector<TokenId> tokens_;
  std::vector<std::vector<double>> betas_;
};

}  // namespace banyan
