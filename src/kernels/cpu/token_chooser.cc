#include "kernels/cpu/token_chooser.h"

#include <algorithm>
#include <cmath>

#include "kernels/host_choices.h"

namespace banyan {
namespace {

constexpr size_t kPart = 2048;  // tokens: a few microseconds of powers

size_t PartsOf(std::span<const float> logits) { return (logits.size() + kPart - 1) / kPart; }

std::span<const float> PartOf(std::span<const float> logits, size_t part) {
  return logits.subspan(part * kPart, std::min(kPart, logits.size() - part * kPart));
}

double SumOf(std::span<const float> part, float largest, const VectorKernels& vector) {
  // A row with an infinite logit has no sum, and LogSumExp does not use it.
  if (std::isinf(largest)) return 0.0;
  return vector.sum_of_powers(part.data(), static_cast<std::int64_t>(part.size()), largest);
}

float LargestOf(std::span<const float> logits, const VectorKernels& vector) {
  return vector.largest(logits.data(), static_cast<std::int64_t>(logits.size()));
}

}  // namespace

LogSumExp TokenChooser::LogSum(std::span<const float> logits) const {
  const float largest = LargestOf(logits, vector_);
  double sum = 0.0;
  for (size_t part = 0; part < PartsOf(logits); ++part) {
    sum += SumOf(PartOf(logits, part), largest, vector_);
  }
  return LogSumExp(largest, std::span(&sum, 1));
}

void TokenChooser::SelectTokens(const LogitRows& logits, std::span<const SamplingRow> requests,
                                std::span<TokenChoice> choices) {
  if (requests.empty()) return;
  const auto count = static_cast<std::int64_t>(requests.size());
  const auto row = [&](std::int64_t i) { return logits.Row(requests[static_cast<size_t>(i)].row); };
  const auto parts = static_cast<std::int64_t>(PartsOf(row(0)));
  largest_.resize(requests.size());
  sums_.resize(requests.size() * static_cast<size_t>(parts));
  // With fewer rows than threads, threads share the powers of a row.
  const bool few = 2 * count <= pool_.size();
  pool_.ForEach(count, [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    if (few) {
      largest_[at] = LargestOf(row(i), vector_);
    } else {
      choices[at] = SelectToken(row(i), requests[at], LogSum(row(i)));
    }
  });
  if (!few) return;
  pool_.ForEach(count * parts, [&](std::int64_t task, int) {
    const std::int64_t i = task / parts;
    sums_[static_cast<size_t>(task)] = SumOf(PartOf(row(i), static_cast<size_t>(task % parts)),
                                             largest_[static_cast<size_t>(i)], vector_);
  });
  pool_.ForEach(count, [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    const std::span<const double> sums(sums_.data() + i * parts, static_cast<size_t>(parts));
    choices[at] = SelectToken(row(i), requests[at], LogSumExp(largest_[at], sums));
  });
}

void TokenChooser::Choose(const LogitRows& logits, std::span<const SamplingRow> requests,
                          const StepPanels& panels, std::unique_ptr<PendingChoices>& choices) {
  HostWorkers workers;
  workers.for_each = [this](std::int64_t count, const std::function<void(std::int64_t)>& part) {
    pool_.ForEach(count, [&](std::int64_t i, int) { part(i); });
  };
  workers.select = [this](const LogitRows& rows, std::span<const SamplingRow> asked,
                          std::span<TokenChoice> made) { SelectTokens(rows, asked, made); };
  workers.log_sum = [this](std::span<const float> row) { return LogSum(row); };
  ChooseOnHost(logits, requests, panels, workers, choices);
}

}  // namespace banyan
