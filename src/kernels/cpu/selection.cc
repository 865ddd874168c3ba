#include "kernels/cpu/selection.h"

#include <algorithm>
#include <cmath>

namespace banyan {
namespace {

constexpr size_t kPart = 2048;  // tokens: a few microseconds of powers

size_t PartsOf(std::span<const float> logits) { return (logits.size() + kPart - 1) / kPart; }

std::span<const float> PartOf(std::span<const float> logits, size_t part) {
  return logits.subspan(part * kPart, std::min(kPart, logits.size() - part * kPart));
}

double SumOf(std::span<const float> part, float largest, const VectorKernels& vector) {
  // An infinite row has no sum, and LogSumExp asks for none.
  if (std::isinf(largest)) return 0.0;
  return vector.sum_of_powers(part.data(), static_cast<std::int64_t>(part.size()), largest);
}

float LargestOf(std::span<const float> logits, const VectorKernels& vector) {
  return vector.largest(logits.data(), static_cast<std::int64_t>(logits.size()));
}

}  // namespace

LogSumExp LogSumOnCpu(std::span<const float> logits, const VectorKernels& vector) {
  const float largest = LargestOf(logits, vector);
  double sum = 0.0;
  for (size_t part = 0; part < PartsOf(logits); ++part) {
    sum += SumOf(PartOf(logits, part), largest, vector);
  }
  return LogSumExp(largest, std::span(&sum, 1));
}

void SelectTokensOnCpu(const LogitRows& logits, std::span<const SamplingRow> requests,
                       std::span<TokenChoice> choices, const SelectionWorkers& workers) {
  if (requests.empty()) return;
  const auto count = static_cast<std::int64_t>(requests.size());
  const auto row = [&](std::int64_t i) { return logits.Row(requests[static_cast<size_t>(i)].row); };
  const auto parts = static_cast<std::int64_t>(PartsOf(row(0)));
  SelectionScratch& scratch = workers.scratch;
  scratch.largest.resize(requests.size());
  scratch.sums.resize(requests.size() * static_cast<size_t>(parts));
  // Where there are fewer rows than threads these share a row's powers.
  const bool few = 2 * count <= workers.pool.size();
  workers.pool.ForEach(count, [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    if (few) {
      scratch.largest[at] = LargestOf(row(i), workers.vector);
    } else {
      choices[at] = SelectToken(row(i), requests[at], LogSumOnCpu(row(i), workers.vector));
    }
  });
  if (!few) return;
  workers.pool.ForEach(count * parts, [&](std::int64_t task, int) {
    const std::int64_t i = task / parts;
    scratch.sums[static_cast<size_t>(task)] =
        SumOf(PartOf(row(i), static_cast<size_t>(task % parts)),
              scratch.largest[static_cast<size_t>(i)], workers.vector);
  });
  workers.pool.ForEach(count, [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    const std::span<const double> sums(scratch.sums.data() + i * parts, static_cast<size_t>(parts));
    choices[at] = SelectToken(row(i), requests[at], LogSumExp(scratch.largest[at], sums));
  });
}

}  // namespace banyan
