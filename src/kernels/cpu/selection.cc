#include "kernels/cpu/selection.h"

#include <algorithm>

#include "kernels/log_sum.h"

namespace banyan {
namespace {

constexpr std::int64_t kTokensTogether = 512;  // for a thread: a few microseconds of powers

void ShareRows(const LogitRows& logits, std::span<const SamplingRow> requests,
               std::span<TokenChoice> choices, ThreadPool& pool, SelectionScratch& scratch) {
  const size_t vocabulary = static_cast<size_t>(logits.columns);
  const auto count = static_cast<std::int64_t>(requests.size());
  scratch.largest.resize(requests.size());
  scratch.powers.resize(requests.size() * vocabulary);
  const auto row = [&](size_t i) { return logits.Row(requests[i].row); };
  pool.ForEach(count, [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    scratch.largest[at] = LargestLogit(row(at));
  });
  const std::int64_t parts = (logits.columns + kTokensTogether - 1) / kTokensTogether;
  pool.ForEach(count * parts, [&](std::int64_t task, int) {
    const auto at = static_cast<size_t>(task / parts);
    const auto begin = static_cast<size_t>(task % parts * kTokensTogether);
    const size_t end = std::min(begin + kTokensTogether, vocabulary);
    double* powers = scratch.powers.data() + at * vocabulary;
    const std::span<const float> values = row(at);
    for (size_t token = begin; token < end; ++token) {
      powers[token] = LogSumExp::PowerOf(values[token], scratch.largest[at]);
    }
  });
  pool.ForEach(count, [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    const std::span<const double> powers(scratch.powers.data() + at * vocabulary, vocabulary);
    choices[at] = SelectToken(row(at), requests[at], LogSumExp(scratch.largest[at], powers));
  });
}

}  // namespace

void SelectTokensOnCpu(const LogitRows& logits, std::span<const SamplingRow> requests,
                       std::span<TokenChoice> choices, ThreadPool& pool,
                       SelectionScratch& scratch) {
  const bool few = 2 * static_cast<int>(requests.size()) <= pool.size();
  if (few && logits.columns >= 2 * kTokensTogether) {
    return ShareRows(logits, requests, choices, pool, scratch);
  }
  pool.ForEach(static_cast<std::int64_t>(requests.size()), [&](std::int64_t i, int) {
    const auto at = static_cast<size_t>(i);
    choices[at] = SelectToken(logits.Row(requests[at].row), requests[at]);
  });
}

}  // namespace banyan
