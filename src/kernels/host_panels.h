// Choices from panels of experts where logits lie in host memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "kernels/fusion.h"
#include "kernels/kernels.h"
#include "kernels/log_sum.h"
#include "kernels/sampling.h"

namespace banyan {

// How a backend gets through work whose parts do not depend on one another.
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
