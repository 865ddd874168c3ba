// Choices of backends that choose at once, on the host.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/kernels.h"

namespace banyan {

class HostChoices : public PendingChoices {
 public:
  HostChoices() = default;
  explicit HostChoices(std::vector<TokenChoice> choices) : choices_(std::move(choices)) {}
  const std::vector<TokenChoice>& Take() override { return choices_; }

  // Room for `count` choices in `choices` (see Kernels::Choose), each to be written.
  static std::span<TokenChoice> RoomFor(size_t count, std::unique_ptr<PendingChoices>& choices) {
    if (choices == nullptr) choices = std::make_unique<HostChoices>();
    std::vector<TokenChoice>& room = static_cast<HostChoices&>(*choices).choices_;
    room.resize(count);
    return room;
  }

  const TokenChoice& at(std::int32_t choice) const {
    BANYAN_CHECK(choice >= 0 && static_cast<size_t>(choice) < choices_.size());
    return choices_[static_cast<size_t>(choice)];
  }

  // Puts the tokens chosen by `earlier` where `tokens` names its choices (plan/batch.h).
  // REQUIRES: `earlier` is a HostChoices, or null when no choice is named.
  static void Resolve(const PendingChoices* earlier, std::vector<TokenId>& tokens) {
    for (TokenId& token : tokens) {
      if (!IsChoice(token)) continue;
      BANYAN_CHECK(earlier != nullptr);
      const std::vector<TokenChoice>& made = static_cast<const HostChoices*>(earlier)->choices_;
      const auto choice = static_cast<size_t>(ChoiceOf(token));
      BANYAN_CHECK(choice < made.size());
      token = std::max(made[choice].token, 0);  // what follows no token is of no use to anyone
    }
  }

 private:
  std::vector<TokenChoice> choices_;
};

}  // namespace banyan
