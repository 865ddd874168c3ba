// Kernels::Choose for backends whose logits are in host memory: choices are made at once, from
// plain rows and from panels of experts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/fusion.h"
#include "kernels/kernels.h"
#include "kernels/sampling.h"

namespace banyan {

class HostChoices : public PendingChoices {
 public:
  HostChoices() = default;
  explicit HostChoices(std::vector<TokenChoice> choices) : choices_(std::move(choices)) {}
  const std::vector<TokenChoice>& Take() override { return choices_; }

  // `count` choices in `choices` (see Kernels::Choose), for the caller to write.
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
      token = std::max(made[choice].token, 0);  // the result after kNoToken is never used
    }
  }

 private:
  std::vector<TokenChoice> choices_;
};

// How a backend runs independent parts of work.
struct HostWorkers {
  // Calls part(0) … part(count - 1), in any order.
  std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& part)> for_each;
  // choices[i] = SelectToken of the row that requests[i] names.
  std::function<void(const LogitRows& logits, std::span<const SamplingRow> requests,
                     std::span<TokenChoice> choices)>
      select;
  // log(sum(exp)) of a row, always with the same bits.
  std::function<LogSumExp(std::span<const float> row)> log_sum;
};

// Kernels::Choose, into HostChoices. Every panel's choice depends on its own rows alone.
void ChooseOnHost(const LogitRows& logits, std::span<const SamplingRow> requests,
                  const StepPanels& panels, const HostWorkers& workers,
                  std::unique_ptr<PendingChoices>& choices);

}  // namespace banyan
