// Tables of experts, and the launches of a mixture (expert_mixer.h).
#include "kernels/cuda/experts/expert_mixer.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/device/tensor_map.h"
#include "kernels/cuda/rows/tensor_memory.h"

namespace banyan::cuda {
namespace {

constexpr int kMapRows = 64;  // of a box

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
  const auto same = [](const QuantisedRows& x, const QuantisedRows& y) {
    return x.form == y.form && x.first_row == y.first_row && x.rows == y.rows;
  };
  return a.form == b.form && a.rows == b.rows && a.columns == b.columns &&
         std::ranges::equal(a.quantised, b.quantised, same);
}

ExpertForm FormOf(WeightForm form) {
  if (form == WeightForm::kF32) return ExpertForm::kF32;
  return form == WeightForm::kBF16 ? ExpertForm::kBF16 : ExpertForm::kQuantised;
}

const float* From(const float* bias, std::int64_t row) {
  return bias == nullptr ? nullptr : bias + row;
}

// Rows [first_row, first_row + rows) of `rows`, which both are multiples of 16 of.
QuantisedRows Within(const QuantisedRows& all, std::int64_t first_row, std::int64_t rows) {
  QuantisedRows some = all;
  const std::int64_t row_tiles = (first_row - all.first_row) / kTileRows;
  some.first_row = first_row;
  some.rows = some.padded_rows = rows;
  some.codes += row_tiles * TilesOf(all) * kTileBytes;
  some.records += row_tiles * TilesOf(all) * 8 * RecordBytes(all.form);
  return some;
}

// Which rows of a matrix a part has.
struct RowsOfPart {
  std::int64_t first = 0, count = 0;
};

Placed Place(const std::vector<ExpertMatrix>& experts, const std::vector<RowsOfPart>& ranges) {
  const DeviceMatrix& first = *experts.front().matrix;
  Placed placed;
  for (const RowsOfPart& range : ranges) {
    ExpertPart part{FormOf(first.form), {},      range.first, range.count,
                    first.stride,       nullptr, nullptr};
    for (const ExpertMatrix& expert : experts) {
      const float* bias = From(expert.bias, range.first);
      if (first.form != WeightForm::kQuantised) {
        const std::int64_t element = first.form == WeightForm::kF32 ? 4 : 2;
        placed.places.push_back(
            {expert.matrix->memory.As<std::byte>() + range.first * first.stride * element, nullptr,
             bias});
        continue;
      }
      for (const QuantisedRows& rows : expert.matrix->quantised) {
        if (range.first < rows.first_row || range.first >= rows.first_row + rows.rows) continue;
        const QuantisedRows own = Within(rows, range.first, range.count);
        part.quantised = own.form;
        placed.places.push_back({own.codes, own.records, bias});
      }
    }
    placed.parts.push_back(part);
  }
  return placed;
}

void CheckSameForm(const std::vector<ExpertMatrix>& experts) {
  for (const ExpertMatrix& expert : experts) {
    if (SameForm(*expert.matrix, *experts.front().matrix)) continue;
    Throw(ErrorKind::kUnsupported,
          "device cuda: experts of a layer are stored in different types; expected one");
  }
}

// All rows, as they are stored.
std::vector<RowsOfPart> StoredParts(const DeviceMatrix& matrix) {
  if (matrix.form != WeightForm::kQuantised) return {{0, matrix.rows}};
  std::vector<RowsOfPart> parts;
  for (const QuantisedRows& rows : matrix.quantised) parts.push_back({rows.first_row, rows.rows});
  return parts;
}

// Whether the halves of the rows are of one form, so that a kernel can multiply both at once.
bool HalvesMatch(const DeviceMatrix& matrix) {
  const std::int64_t half = matrix.rows / 2;
  if (matrix.form == WeightForm::kBF16) return true;
  if (matrix.form != WeightForm::kQuantised) return false;
  const std::vector<QuantisedRows>& parts = matrix.quantised;
  if (parts.size() == 1) return half % kTileRows == 0;
  return parts.size() == 2 && parts[1].first_row == half && parts[0].form == parts[1].form;
}

// Boxes of 64 rows, for the kernels of many rows.
std::vector<CUtensorMap> MapsOf(const Placed& placed, size_t experts) {
  std::vector<CUtensorMap> maps;
  for (size_t i = 0; i < placed.places.size(); ++i) {
    const ExpertPart& part = placed.parts[i / experts];
    maps.push_back(MapOfMatrix(static_cast<const __nv_bfloat16*>(placed.places[i].weights),
                               part.rows, part.stride, kMapRows, 1));
  }
  return maps;
}

const DeviceMatrix* OnDevice(const std::shared_ptr<const Matrix>& matrix) {
  return static_cast<const DeviceMatrix*>(matrix.get());
}

}  // namespace

std::shared_ptr<const ExpertTable> ExpertMixer::Gather(std::vector<ExpertWeights> experts,
                                                       ExpertNumbers numbers) {
  BANYAN_CHECK(!experts.empty() && experts.size() <= kMostExperts);
  auto table = std::make_shared<DeviceExperts>();
  table->numbers = std::move(numbers);
  table->experts = std::move(experts);
  std::vector<ExpertMatrix> gate_up, down;
  for (const ExpertWeights& expert : table->experts) {
    gate_up.push_back({OnDevice(expert.gate_up), Values(expert.gate_up_bias.get())});
    down.push_back({OnDevice(expert.down), Values(expert.down_bias.get())});
  }
  CheckSameForm(gate_up);
  CheckSameForm(down);
  const DeviceMatrix& first = *gate_up.front().matrix;
  const std::int64_t inner = first.rows / 2;
  std::vector<Placed> all = {Place(gate_up, StoredParts(first)),
                             Place(down, StoredParts(*down.front().matrix))};
  const bool mixed = first.form != WeightForm::kF32;
  int most = kManyExpertRows;
  for (const Placed& placed : all) {
    for (const ExpertPart& part : placed.parts) most = std::min(most, MostRowsOfExpertTile(part));
  }
  const bool wide = most > 0;
  const bool gated = wide && HalvesMatch(first);  // the plain kernels have no gate
  all.push_back(gated ? Place(gate_up, {{0, inner}}) : Placed{});
  all.push_back(gated ? Place(gate_up, {{inner, inner}}) : Placed{});
  table->tiling = {mixed ? kFewExpertRows : 0, wide ? most : kPlainExpertRows};
  std::vector<ExpertMatrixPart> places;
  std::vector<CUtensorMap> maps;
  const size_t count = table->experts.size();
  for (const Placed& placed : all) {
    places.insert(places.end(), placed.places.begin(), placed.places.end());
    if (!wide || placed.parts.empty() || placed.parts.front().form != ExpertForm::kBF16) {
      maps.resize(places.size());
      continue;
    }
    const std::vector<CUtensorMap> more = MapsOf(placed, count);
    maps.insert(maps.end(), more.begin(), more.end());
  }
  const auto upload = [&](const auto& values, const char* what) {
    const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(values[0]));
    DeviceMemory memory(device_, bytes, what);
    memory.CopyFromHost(values.data(), bytes);
    return memory;
  };
  for (const std::vector<float>* some :
       {&table->numbers.share_scales, &table->numbers.choice_biases}) {
    if (some->empty()) continue;
    BANYAN_CHECK(some->size() == count);
    const bool scales = some == &table->numbers.share_scales;
    (scales ? table->share_scales : table->choice_biases) = upload(*some, "numbers of experts");
  }
  table->places = upload(places, "places of experts");
  if (wide) table->maps = upload(maps, "places of experts");
  std::int64_t next = 0;
  for (Placed& placed : all) {
    for (ExpertPart& part : placed.parts) {
      part.experts = table->places.As<ExpertMatrixPart>() + next;
      if (wide) part.maps = table->maps.As<CUtensorMap>() + next;
      next += static_cast<std::int64_t>(count);
    }
  }
  table->gate_up = std::move(all[0].parts);
  table->down = std::move(all[1].parts);
  table->gate = std::move(all[2].parts);
  table->up = std::move(all[3].parts);
  if (routes_.bytes() == 0) {
    routes_ =
        DeviceMemory(device_, RoutesBytes(kDeviceExpertRows, kMostChosen), "choices of experts");
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
  const std::int64_t batch = std::min(scratch.input.rows / chosen, kDeviceExpertRows);
  const std::int64_t hidden_stride = Stride(x.columns);
  const float* scores = Float32(call.scores);
  const void* source = mixed ? static_cast<const void*>(Bf16(x)) : Float32(x);
  float* target = Float32ForWriting(out);
  for (std::int64_t begin = 0; begin < x.rows; begin += batch) {
    const std::int64_t rows = std::min(batch, x.rows - begin), slots = rows * chosen;
    const ExpertRoutes routes =
        RoutesIn(routes_.As<void>(), static_cast<int>(rows), experts, chosen, table.tiling);
    RouteRows(stream, scores + begin * Stride(call.scores.columns), Stride(call.scores.columns),
              {call.rule.shares, call.rule.scale, table.share_scales.As<float>(),
               table.choice_biases.As<float>()},
              routes);
    const Tensor inner = scratch.inner.Prefix(slots), output = scratch.output.Prefix(slots);
    const std::int64_t element = mixed ? 2 : 4;
    ExpertProduct product;
    product.x = static_cast<const std::byte*>(source) + begin * hidden_stride * element;
    product.by_row = true;
    product.gate = call.rule.gate;
    if (table.tiling.many > kPlainExpertRows && routes.most_many() > 0) {
      __nv_bfloat16* input = Bf16ForWriting(scratch.input.Prefix(slots));
      GatherExpertRows(stream, routes, static_cast<const __nv_bfloat16*>(product.x), hidden_stride,
                       input);
      product.x_of_slots = input;
    }
    const RowOutput inner_out = OutputForProducts(inner, precision_);
    if (!table.gate.empty()) {
      product.part = table.gate.front();
      product.up = &table.up.front();
      product.out = inner_out;
      product.out_stride = Stride(inner.columns);
      MultiplyExperts(stream, routes, product);
      product.up = nullptr;
    } else {
      const Tensor gate_up = scratch.gate_up.Prefix(slots);
      float* halves = Float32ForWriting(gate_up);
      product.out = {halves, nullptr};
      product.out_stride = Stride(gate_up.columns);
      for (const ExpertPart& part : table.gate_up) {
        product.part = part;
        MultiplyExperts(stream, routes, product);
      }
      GateExperts(stream, call.rule.gate, halves, product.out_stride,
                  {slots, inner.columns, Stride(inner.columns)}, inner_out);
    }
    product.x = mixed ? static_cast<const void*>(inner_out.bf16)
                      : static_cast<const void*>(inner_out.float32);
    product.by_row = false;
    product.routes_are_there = true;
    float* outputs = Float32ForWriting(output);
    product.out = {outputs, nullptr};
    product.out_stride = Stride(output.columns);
    for (const ExpertPart& part : table.down) {
      product.part = part;
      MultiplyExperts(stream, routes, product);
    }
    SumExperts(stream, routes, outputs, {rows, out.columns, Stride(out.columns)},
               target + begin * Stride(out.columns));
  }
}

}  // namespace banyan::cuda
