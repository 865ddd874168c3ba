#include "kernels/cpu/expert_mixer.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/cpu_kernels.h"

namespace banyan {
namespace {

// Values that a thread takes at least: a few microseconds of work.
constexpr std::int64_t kValuesTogether = 8192;

std::int64_t ExpertRowsTogether(std::int64_t columns) {
  return 1 + kValuesTogether / std::max<std::int64_t>(columns, 1);
}

const float* BiasOf(const std::shared_ptr<const Vector>& bias) {
  return bias == nullptr ? nullptr : Values(*bias);
}

}  // namespace

void ExpertMixer::Mix(const Tensor& x, const ExpertCall& call, Tensor& out) {
  const int chosen = call.rule.chosen;
  BANYAN_CHECK(call.scores.columns == static_cast<std::int64_t>(call.table.experts.size()));
  BANYAN_CHECK(call.scratch.input.rows >= chosen && x.rows == call.scores.rows);
  const std::int64_t chunk = call.scratch.input.rows / chosen;
  for (std::int64_t begin = 0; begin < x.rows; begin += chunk) {
    const ExpertRows rows{begin, std::min(begin + chunk, x.rows)};
    Inner(x, call, rows, call.scratch.inner);
    Outputs(call, rows, call.scratch.inner, out);
  }
}

void ExpertMixer::Inner(const Tensor& x, const ExpertCall& call, ExpertRows chunk,
                        const Tensor& inner) {
  const std::int64_t rows = chunk.end - chunk.begin;
  const auto chosen = static_cast<size_t>(call.rule.chosen);
  const auto experts = static_cast<size_t>(call.scores.columns);
  choices_.resize(static_cast<size_t>(rows) * chosen);
  products_.pool.ForEach(
      rows, ExpertRowsTogether(4 * call.scores.columns), [&](std::int64_t row, int) {
        ChooseExperts(std::span(Row(call.scores, chunk.begin + row), experts), call.rule,
                      call.table.numbers,
                      std::span(choices_).subspan(static_cast<size_t>(row) * chosen, chosen));
      });
  runs_.Assign(choices_, call.rule.chosen, static_cast<int>(experts));

  if (call.scratch.gate_up.columns == 0) return;  // of a shard that only chooses
  const auto slots = static_cast<std::int64_t>(choices_.size());
  const ExpertScratch& scratch = call.scratch;
  products_.pool.ForEach(slots, ExpertRowsTogether(x.columns), [&](std::int64_t slot, int) {
    const std::int64_t row = chunk.begin + runs_.row[static_cast<size_t>(slot)];
    std::copy_n(Row(x, row), x.columns, Row(scratch.input, slot));
  });
  MultiplyExperts(call, /*down=*/false, scratch.input, scratch.gate_up);
  const std::int64_t gates = scratch.gate_up.columns / 2;
  const VectorKernels& vector = products_.path.vector;
  const GluLoop glu = call.rule.gate.function == Gate::kSilu ? vector.swiglu : vector.geglu;
  products_.pool.ForEach(slots, ExpertRowsTogether(gates), [&](std::int64_t slot, int) {
    float* halves = Row(scratch.gate_up, slot);
    if (call.rule.gate.limit != 0.0f) {
      PrepareExpertGate(call.rule.gate, std::span(halves, static_cast<size_t>(2 * gates)));
    }
    glu(halves, halves + gates, gates, Row(inner, slot));
  });
}

void ExpertMixer::Outputs(const ExpertCall& call, ExpertRows chunk, const Tensor& inner,
                          Tensor& out) {
  const std::int64_t rows = chunk.end - chunk.begin;
  const auto chosen = static_cast<size_t>(call.rule.chosen);
  const ExpertScratch& scratch = call.scratch;
  MultiplyExperts(call, /*down=*/true, inner, scratch.output);
  products_.pool.ForEach(rows, ExpertRowsTogether(out.columns * call.rule.chosen),
                         [&](std::int64_t row, int) {
                           float* sum = Row(out, chunk.begin + row);
                           std::fill_n(sum, out.columns, 0.0f);
                           for (size_t i = 0; i < chosen; ++i) {
                             const size_t at = static_cast<size_t>(row) * chosen + i;
                             const float* part = Row(scratch.output, runs_.place[at]);
                             const float share = choices_[at].share;
                             for (std::int64_t c = 0; c < out.columns; ++c)
                               sum[c] += share * part[c];
                           }
                         });
}

void ExpertMixer::MultiplyExperts(const ExpertCall& call, bool down, const Tensor& x,
                                  const Tensor& out) {
  matrices_.clear();
  for (const ExpertRuns::Run& run : runs_.runs) {
    const ExpertWeights& expert = call.table.experts[static_cast<size_t>(run.expert)];
    matrices_.push_back(
        {static_cast<const PackedMatrix*>((down ? expert.down : expert.gate_up).get()),
         BiasOf(down ? expert.down_bias : expert.gate_up_bias),
         {run.begin, run.end}});
  }
  ProductRows rows;
  rows.x = Data(x);
  rows.x_stride = Stride(x.columns);
  rows.out = Data(out);
  rows.out_stride = Stride(out.columns);
  MultiplyRuns(matrices_, rows, products_);
}

}  // namespace banyan
