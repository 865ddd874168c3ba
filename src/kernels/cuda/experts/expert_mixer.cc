#include "kernels/cuda/experts/expert_mixer.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/rows/tensor_memory.h"

namespace banyan::cuda {
namespace {

struct ExpertMatrix {
  const DeviceMatrix* matrix;
  const float* bias;
};

// One matrix of every expert as parts, and for each part where it lies: [parts][experts].
struct Placed {
  std::vector<ExpertPart> parts;
  std::vector<ExpertMatrixPart> places;
};

bool SameForm(const DeviceMatrix& a, const DeviceMatrix& b) {
  const auto same = [](const CompactRows& x, const CompactRows& y) {
    return x.form == y.form && x.first_row == y.first_row && x.rows == y.rows;
  };
  return a.form == b.form && a.rows == b.rows && a.columns == b.columns &&
         std::ranges::equal(a.compact, b.compact, same);
}

ExpertForm FormOf(WeightForm form) {
  if (form == WeightForm::kF32) return ExpertForm::kF32;
  return form == WeightForm::kBF16 ? ExpertForm::kBF16 : ExpertForm::kCompact;
}

Placed Place(const std::vector<ExpertMatrix>& experts) {
  const DeviceMatrix& first = *experts.front().matrix;
  for (const ExpertMatrix& expert : experts) {
    if (SameForm(*expert.matrix, first)) continue;
    Throw(ErrorKind::kUnsupported,
          "device cuda: experts of a layer are stored in different types; expected one");
  }
  Placed placed;
  if (first.form != WeightForm::kCompact) {
    placed.parts.push_back({FormOf(first.form), {}, 0, first.rows, first.stride, nullptr});
    for (const ExpertMatrix& expert : experts) {
      placed.places.push_back({expert.matrix->memory.As<void>(), nullptr, expert.bias});
    }
    return placed;
  }
  for (size_t i = 0; i < first.compact.size(); ++i) {
    const CompactRows& rows = first.compact[i];
    placed.parts.push_back(
        {FormOf(first.form), rows.form, rows.first_row, rows.rows, first.stride, nullptr});
    for (const ExpertMatrix& expert : experts) {
      const CompactRows& own = expert.matrix->compact[i];
      placed.places.push_back({own.codes, own.records, expert.bias});
    }
  }
  return placed;
}

const DeviceMatrix* OnDevice(const std::shared_ptr<const Matrix>& matrix) {
  return static_cast<const DeviceMatrix*>(matrix.get());
}

}  // namespace

std::shared_ptr<const ExpertTable> ExpertMixer::Gather(std::vector<ExpertWeights> experts) {
  BANYAN_CHECK(!experts.empty() && experts.size() <= kMostExperts);
  auto table = std::make_shared<DeviceExperts>();
  table->experts = std::move(experts);
  std::vector<ExpertMatrix> gate_up, down;
  for (const ExpertWeights& expert : table->experts) {
    gate_up.push_back({OnDevice(expert.gate_up), Values(expert.gate_up_bias.get())});
    down.push_back({OnDevice(expert.down), Values(expert.down_bias.get())});
  }
  Placed first = Place(gate_up), second = Place(down);
  std::vector<ExpertMatrixPart> places = first.places;
  places.insert(places.end(), second.places.begin(), second.places.end());
  const auto bytes = static_cast<std::int64_t>(places.size() * sizeof(ExpertMatrixPart));
  table->places = DeviceMemory(device_, bytes, "places of experts");
  table->places.CopyFromHost(places.data(), bytes);
  const ExpertMatrixPart* next = table->places.As<ExpertMatrixPart>();
  const auto point = [&](std::vector<ExpertPart> parts) {
    for (ExpertPart& part : parts) {
      part.experts = next;
      next += table->experts.size();
    }
    return parts;
  };
  table->gate_up = point(std::move(first.parts));
  table->down = point(std::move(second.parts));
  if (routes_.bytes() == 0) {
    routes_ = DeviceMemory(device_, RoutesBytes(kExpertRows, kMostChosen), "choices of experts");
  }
  return table;
}

void ExpertMixer::Mix(const Tensor& x, const ExpertCall& call, Tensor& out) {
  const auto& table = static_cast<const DeviceExperts&>(call.table);
  const ExpertScratch& scratch = call.scratch;
  const cudaStream_t stream = device_->stream;
  const int chosen = call.rule.chosen, experts = static_cast<int>(table.experts.size());
  BANYAN_CHECK(chosen >= 1 && chosen <= std::min(experts, kMostChosen));
  BANYAN_CHECK(call.scores.columns == experts && call.scores.rows == x.rows && out.rows == x.rows &&
               scratch.input.rows >= chosen);
  const bool mixed = precision_ == Precision::kMixed;
  const std::int64_t stretch = std::min(scratch.input.rows / chosen, kExpertRows);
  const std::int64_t hidden_stride = Stride(x.columns);
  const float* scores = Float32(call.scores);
  const void* source = mixed ? static_cast<const void*>(Bf16(x)) : Float32(x);
  float* target = Float32ForWriting(out);
  for (std::int64_t begin = 0; begin < x.rows; begin += stretch) {
    const std::int64_t rows = std::min(stretch, x.rows - begin), slots = rows * chosen;
    const ExpertRoutes routes =
        RoutesIn(routes_.As<void>(), static_cast<int>(rows), experts, chosen);
    RouteRows(stream, scores + begin * Stride(call.scores.columns), Stride(call.scores.columns),
              call.rule.shares, routes);
    const Tensor gate_up = scratch.gate_up.Prefix(slots), inner = scratch.inner.Prefix(slots);
    const Tensor output = scratch.output.Prefix(slots);
    float* halves = Float32ForWriting(gate_up);
    const std::int64_t element = mixed ? 2 : 4;
    const auto* rows_of_x = static_cast<const std::byte*>(source) + begin * hidden_stride * element;
    for (const ExpertPart& part : table.gate_up) {
      MultiplyExperts(stream, routes,
                      {part, rows_of_x, /*by_row=*/true, halves, Stride(gate_up.columns)});
    }
    const RowLayout inner_range{slots, inner.columns, Stride(inner.columns)};
    const RowOutput inner_out = OutputForProducts(inner, precision_);
    GateExperts(stream, call.rule.gate, halves, Stride(gate_up.columns), inner_range, inner_out);
    const void* gated = mixed ? static_cast<const void*>(inner_out.bf16)
                              : static_cast<const void*>(inner_out.float32);
    float* outputs = Float32ForWriting(output);
    for (const ExpertPart& part : table.down) {
      MultiplyExperts(stream, routes,
                      {part, gated, /*by_row=*/false, outputs, Stride(output.columns)});
    }
    SumExperts(stream, routes, outputs, {rows, out.columns, Stride(out.columns)},
               target + begin * Stride(out.columns));
  }
}

}  // namespace banyan::cuda
