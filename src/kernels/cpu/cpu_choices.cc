// What becomes of logits in the cpu backend: tokens, fused rows, scores.
#include "base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/host_choices.h"
#include "kernels/host_panels.h"

namespace banyan {
namespace {

// Rows of logits that are there at once where they are only chosen from: as many as fill the loops
// of products (machine_rates.cc measures with as many). More would be read again from memory.
constexpr std::int64_t kLogitRows = 48;

LogitRows RowsOf(const Tensor& logits) {
  return {Row(logits, 0), Stride(logits.columns), logits.columns};
}

}  // namespace

void CpuKernels::Choose(const Tensor& logits, std::span<const SamplingRow> requests,
                        const StepPanels& panels, std::unique_ptr<PendingChoices>& choices) {
  HostWorkers workers;
  workers.for_each = [this](std::int64_t count, const std::function<void(std::int64_t)>& part) {
    pool_.ForEach(count, [&](std::int64_t i, int) { part(i); });
  };
  workers.select = [this](const LogitRows& rows, std::span<const SamplingRow> asked,
                          std::span<TokenChoice> made) {
    SelectTokensOnCpu(rows, asked, made, {vector_, pool_, selection_});
  };
  workers.log_sum = [this](std::span<const float> row) { return LogSumOnCpu(row, vector_); };
  ChooseOnHost(RowsOf(logits), requests, panels, workers, choices);
}

// Parts of equally many rows, each chosen from before the next takes its memory: the logits of
// 256 streams would be as large as half of a small model.
void CpuKernels::MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                              std::span<const SamplingRow> requests,
                              std::unique_ptr<PendingChoices>& pending) {
  const std::span<TokenChoice> choices = HostChoices::RoomFor(requests.size(), pending);
  const std::int64_t parts = (x.rows + kLogitRows - 1) / kLogitRows;
  size_t chosen = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = part * x.rows / parts, end = (part + 1) * x.rows / parts;
    Tensor some = logits.Prefix(end - begin);
    const Tensor from{std::shared_ptr<void>(x.memory, Row(x, begin)), end - begin, x.columns};
    MatMul(from, w, nullptr, some);
    part_requests_.clear();
    for (const SamplingRow& request : requests) {
      if (request.row < begin || request.row >= end) continue;
      part_requests_.push_back(request);
      part_requests_.back().row -= static_cast<std::int32_t>(begin);
    }
    part_choices_.resize(part_requests_.size());
    SelectTokens(some, part_requests_, part_choices_);
    size_t next = 0;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].row < begin || requests[i].row >= end) continue;
      choices[i] = std::move(part_choices_[next++]);
    }
    chosen += next;
  }
  BANYAN_CHECK(chosen == requests.size());  // each names a row
}

void CpuKernels::SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                              std::span<TokenChoice> choices) {
  SelectTokensOnCpu(RowsOf(logits), requests, choices, {vector_, pool_, selection_});
}

void CpuKernels::ScoreTokens(const Tensor& logits, std::span<const std::int32_t> rows,
                             std::span<const TokenId> tokens, std::span<float> logprobs) {
  pool_.ForEach(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i, int) {
    const size_t at = static_cast<size_t>(i);
    const std::span<const float> row = RowsOf(logits).Row(rows[at]);
    const size_t token = static_cast<size_t>(tokens[at]);
    BANYAN_CHECK(token < row.size());
    logprobs[at] = LogSumOnCpu(row, vector_).Logprob(row[token]);
  });
}

RowSums CpuKernels::SumsOf(const Tensor& logits) const {
  return [this, rows = RowsOf(logits)](std::int32_t row) {
    return LogSumOnCpu(rows.Row(row), vector_);
  };
}

void CpuKernels::FuseLogits(const Tensor& logits, std::span<const PanelRow> panels, Tensor& fused) {
  BANYAN_CHECK(fused.columns == logits.columns);
  pool_.ForEach(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i, int) {
    FusedPanel(RowsOf(logits), panels[static_cast<size_t>(i)], SumsOf(logits))
        .Fuse(0, {Row(fused, i), static_cast<size_t>(fused.columns)});
  });
}

void CpuKernels::FindWinners(const Tensor& logits, std::span<const PanelRow> panels,
                             std::span<const TokenId> tokens, std::span<std::int32_t> winners) {
  pool_.ForEach(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i, int) {
    const size_t at = static_cast<size_t>(i);
    winners[at] = FusedPanel(RowsOf(logits), panels[at], SumsOf(logits)).Winner(tokens[at]);
  });
}

void CpuKernels::MeasureDivergence(const Tensor& logits, std::span<const RowPair> pairs,
                                   std::span<double> bits) {
  pool_.ForEach(static_cast<std::int64_t>(pairs.size()), [&](std::int64_t i, int) {
    const RowPair& pair = pairs[static_cast<size_t>(i)];
    const LogitRows rows = RowsOf(logits);
    bits[static_cast<size_t>(i)] = Divergence(rows.Row(pair.first), rows.Row(pair.second));
  });
}

}  // namespace banyan
