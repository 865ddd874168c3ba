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
    for (const TokenChoice& choice : choices_) tokens_.push_back(choice.token);
  }
  std::vector<TokenChoice> Take() override { return std::move(choices_); }

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
  std::vector<TokenId> tokens_;  // stay when the choices are taken
};

}  // namespace banyan
