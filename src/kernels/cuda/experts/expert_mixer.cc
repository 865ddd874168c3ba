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
  switch (form) {
    case WeightForm::kF32:
      return ExpertForm::kF32;
    case WeightForm::kBF16:
      return ExpertForm::kBF16;
    case WeightForm::kQuantised:
      return ExpertForm::kQuantised;
    case WeightForm::kInt8:
      return ExpertForm::kInt8;
  }
  BANYAN_CHECK(false);
}

std::int64_t BytesOfElement(WeightForm form) {
  return form == WeightForm::kF32 ? 4 : form == WeightForm::kBF16 ? 2 : 1;
}

// What the copy engine takes as rows.
bool HasMaps(const Placed& placed) {
  if (placed.parts.empty()) return false;
  const ExpertForm form = placed.parts.front().form;
  return form == ExpertForm::kBF16 || form == ExpertForm::kInt8;
}

const float* From(const float* numbers, std::int64_t row) {
  return numbers == nullptr ? nullptr : numbers + row;
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

const DeviceMatrix* OnDevice(const std::shared_ptr<const Matrix>& matrix) {
  return static_cast<const DeviceMatrix*>(matrix.get());
}

// Which rows of a matrix a part has.
struct RowsOfPart {
  std::int64_t first = 0, count = 0;
};

Placed Place(const std::vector<ExpertMatrix>& experts, const std::vector<RowsOfPart>& ranges) {
  if (experts.empty()) return {};
  const DeviceMatrix& first = *experts.front().matrix;
  Placed placed;
  for (const RowsOfPart& range : ranges) {
    ExpertPart part{FormOf(first.form), {},      range.first, range.count,
                    first.stride,       nullptr, nullptr};
    for (const ExpertMatrix& expert : experts) {
      const float* bias = From(expert.bias, range.first);
      if (first.form != WeightForm::kQuantised) {
        const std::int64_t offset = range.first * first.stride * BytesOfElement(first.form);
        placed.places.push_back({expert.matrix->memory.As<std::byte>() + offset, nullptr, bias,
                                 From(expert.matrix->scales, range.first)});
        continue;
      }
      for (const QuantisedRows& rows : expert.matrix->quantised) {
        if (range.first < rows.first_row || range.first >= rows.first_row + rows.rows) continue;
        const QuantisedRows own = Within(rows, range.first, range.count);
        part.quantised = own.form;
        placed.places.push_back({own.codes, own.records, bias, nullptr});
      }
    }
    placed.parts.push_back(part);
  }
  return placed;
}

// One matrix of every expert; none where a shard has no rows of it.
std::vector<ExpertMatrix> MatricesOf(const std::vector<ExpertWeights>& experts,
                                     std::shared_ptr<const Matrix> ExpertWeights::*matrix,
                                     std::shared_ptr<const Vector> ExpertWeights::*bias) {
  std::vector<ExpertMatrix> all;
  for (const ExpertWeights& expert : experts) {
    if (expert.*matrix == nullptr) return {};
    all.push_back({OnDevice(expert.*matrix), Values((expert.*bias).get())});
  }
  return all;
}

void CheckSameForm(const std::vector<ExpertMatrix>& experts) {
  for (const ExpertMatrix& expert : experts) {
    if (SameForm(*expert.matrix, *experts.front().matrix)) continue;
    Throw(ErrorKind::kUnsupported,
          "device cuda: experts of a layer are stored in different types; expected one");
  }
}

// All rows, as they are stored.
std::vector<RowsOfPart> StoredParts(const std::vector<ExpertMatrix>& experts) {
  if (experts.empty()) return {};
  const DeviceMatrix& matrix = *experts.front().matrix;
  if (matrix.form != WeightForm::kQuantised) return {{0, matrix.rows}};
  std::vector<RowsOfPart> parts;
  for (const QuantisedRows& rows : matrix.quantised) parts.push_back({rows.first_row, rows.rows});
  return parts;
}

// Whether the halves of the rows are of one form, so that a kernel can multiply both at once.
bool HalvesMatch(const std::vector<ExpertMatrix>& experts) {
  if (experts.empty()) return false;
  const DeviceMatrix& matrix = *experts.front().matrix;
  const std::int64_t half = matrix.rows / 2;
  if (matrix.form == WeightForm::kBF16 || matrix.form == WeightForm::kInt8) return true;
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
    const void* weights = placed.places[i].weights;
    maps.push_back(part.form == ExpertForm::kInt8
                       ? MapOfInt8(static_cast<const std::int8_t*>(weights), part.rows, part.stride,
                                   kMapRows, 1)
                       : MapOfMatrix(static_cast<const __nv_bfloat16*>(weights), part.rows,
                                     part.stride, kMapRows, 1));
  }
  return maps;
}

// Whether products with either form read the same rows.
bool ReadsAlike(ExpertForm a, ExpertForm b) {
  const auto kind = [](ExpertForm form) {
    return form == ExpertForm::kQuantised ? ExpertForm::kBF16 : form;
  };
  return kind(a) == kind(b);
}

ExpertOperand OperandFor(const Tensor& x, ExpertForm form) {
  if (form == ExpertForm::kInt8) {
    const Int8Rows codes = Codes(x);
    return {codes.codes, codes.scales, CodeStride(x.columns)};
  }
  if (form == ExpertForm::kF32) return {Float32(x), nullptr, Stride(x.columns) * 4};
  return {Bf16(x), nullptr, Stride(x.columns) * 2};
}

// Memory for those rows without their scales.
void* RowsForWriting(const Tensor& x, ExpertForm form) {
  if (form != ExpertForm::kInt8) return Bf16ForWriting(x);
  std::int8_t* codes = CodesForWriting(x).codes;
  DropCodes(x);  // without scales they are not the tensor's
  return codes;
}

}  // namespace

std::shared_ptr<const ExpertTable> ExpertMixer::Gather(std::vector<ExpertWeights> experts,
                                                       ExpertNumbers numbers) {
  BANYAN_CHECK(!experts.empty() && experts.size() <= kMostExperts);
  auto table = std::make_shared<DeviceExperts>();
  table->numbers = std::move(numbers);
  table->experts = std::move(experts);
  const std::vector<ExpertMatrix> gate_up =
      MatricesOf(table->experts, &ExpertWeights::gate_up, &ExpertWeights::gate_up_bias);
  const std::vector<ExpertMatrix> down =
      MatricesOf(table->experts, &ExpertWeights::down, &ExpertWeights::down_bias);
  CheckSameForm(gate_up);
  CheckSameForm(down);
  std::vector<Placed> all = {Place(gate_up, StoredParts(gate_up)), Place(down, StoredParts(down))};
  for (const Placed& placed : all) {
    if (placed.parts.empty()) continue;
    const ExpertForm form = placed.parts.front().form;
    BANYAN_CHECK(&placed == &all.front() || all.front().parts.empty() ||
                 ReadsAlike(form, table->form));
    table->form = form;
  }
  int most = kManyExpertRows;
  for (const Placed& placed : all) {
    for (const ExpertPart& part : placed.parts) most = std::min(most, MostRowsOfExpertTile(part));
  }
  const bool wide = most > 0;
  const bool gated = wide && HalvesMatch(gate_up);  // the plain kernels have no gate
  const std::int64_t inner = gate_up.empty() ? 0 : gate_up.front().matrix->rows / 2;
  all.push_back(gated ? Place(gate_up, {{0, inner}}) : Placed{});
  all.push_back(gated ? Place(gate_up, {{inner, inner}}) : Placed{});
  // Of codes the kernels of many rows take few as fast as those of few could (at 32 rows faster).
  const bool few = table->form == ExpertForm::kBF16 || table->form == ExpertForm::kQuantised;
  table->tiling = {few ? kFewExpertRows : 0, wide ? most : kPlainExpertRows};
  std::vector<ExpertMatrixPart> places;
  std::vector<CUtensorMap> maps;
  const size_t count = table->experts.size();
  for (const Placed& placed : all) {
    places.insert(places.end(), placed.places.begin(), placed.places.end());
    if (!wide || !HasMaps(placed)) {
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

ExpertRoutes ExpertMixer::RoutesFor(const ExpertCall& call, ExpertRows rows) {
  const auto& table = static_cast<const DeviceExperts&>(call.table);
  const int chosen = call.rule.chosen, experts = static_cast<int>(table.experts.size());
  const std::int64_t count = rows.end - rows.begin;
  BANYAN_CHECK(chosen >= 1 && chosen <= std::min(experts, kMostChosen));
  BANYAN_CHECK(call.scores.columns == experts && count > 0 && count <= kDeviceExpertRows);
  return RoutesIn(routes_.As<void>(), static_cast<int>(count), experts, chosen, table.tiling);
}

void ExpertMixer::Inner(const Tensor& x, const ExpertCall& call, ExpertRows rows,
                        const Tensor& inner) {
  const auto& table = static_cast<const DeviceExperts&>(call.table);
  MultiplyInner(OperandFor(x, table.form), call, rows, inner);
}

void ExpertMixer::MultiplyInner(const ExpertOperand& x, const ExpertCall& call, ExpertRows rows,
                                const Tensor& inner) {
  const auto& table = static_cast<const DeviceExperts&>(call.table);
  const ExpertRoutes routes = RoutesFor(call, rows);
  const std::int64_t scores_stride = Stride(call.scores.columns);
  RouteRows(device_->stream, Float32(call.scores) + rows.begin * scores_stride, scores_stride,
            {call.rule.shares, call.rule.scale, table.share_scales.As<float>(),
             table.choice_biases.As<float>()},
            routes);
  if (inner.columns == 0) return;
  const std::int64_t slots = routes.slots();
  ExpertProduct product;
  product.x = static_cast<const std::byte*>(x.rows) + rows.begin * x.row_bytes;
  product.x_scales = From(x.scales, rows.begin);
  product.by_row = true;
  product.gate = call.rule.gate;
  if (table.tiling.many > kPlainExpertRows && routes.most_many() > 0) {
    void* input = RowsForWriting(call.scratch.input.Prefix(slots), table.form);
    GatherExpertRows(device_->stream, routes, product.x, x.row_bytes, input);
    product.x_of_slots = input;
  }
  const RowOutput inner_out = OutputForProducts(inner, precision_);
  if (!table.gate.empty()) {
    product.part = table.gate.front();
    product.up = &table.up.front();
    product.out = inner_out;
    product.out_stride = Stride(inner.columns);
    MultiplyExperts(device_->stream, routes, product);
    return;
  }
  const Tensor gate_up = call.scratch.gate_up.Prefix(slots);
  float* halves = Float32ForWriting(gate_up);
  product.out = {halves, nullptr};
  product.out_stride = Stride(gate_up.columns);
  for (const ExpertPart& part : table.gate_up) {
    product.part = part;
    MultiplyExperts(device_->stream, routes, product);
  }
  GateExperts(device_->stream, call.rule.gate, halves, product.out_stride,
              {slots, inner.columns, Stride(inner.columns)}, inner_out);
}

void ExpertMixer::Outputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner,
                          Tensor& out) {
  // What is there of earlier rows stays.
  float* target = rows.begin == 0 ? Float32ForWriting(out) : Float32(out);
  BANYAN_CHECK(call.scratch.output.columns == out.columns);
  MultiplyOutputs(call, rows, inner, target, false);
}

void ExpertMixer::MultiplyOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner,
                                  float* out, bool routes_are_there) {
  const auto& table = static_cast<const DeviceExperts&>(call.table);
  const ExpertRoutes routes = RoutesFor(call, rows);
  const Tensor output = call.scratch.output.Prefix(routes.slots());
  BANYAN_CHECK(inner.rows == routes.slots());
  const ExpertOperand x = OperandFor(inner, table.form);
  ExpertProduct product;
  product.x = x.rows;
  product.x_scales = x.scales;
  product.gate = call.rule.gate;
  product.routes_are_there = routes_are_there;
  float* outputs = Float32ForWriting(output);
  product.out = {outputs, nullptr};
  product.out_stride = Stride(output.columns);
  for (const ExpertPart& part : table.down) {
    product.part = part;
    MultiplyExperts(device_->stream, routes, product);
  }
  SumExperts(device_->stream, routes, outputs,
             {rows.end - rows.begin, output.columns, product.out_stride},
             out + rows.begin * product.out_stride);
}

void ExpertMixer::Mix(const Tensor& x, const ExpertCall& call, Tensor& out) {
  const std::int64_t chosen = call.rule.chosen;
  BANYAN_CHECK(call.scores.rows == x.rows && out.rows == x.rows &&
               call.scratch.input.rows >= chosen);
  const std::int64_t batch = std::min(call.scratch.input.rows / chosen, kDeviceExpertRows);
  const ExpertOperand source = OperandFor(x, static_cast<const DeviceExperts&>(call.table).form);
  float* target = Float32ForWriting(out);  // x and out may be one tensor
  for (std::int64_t begin = 0; begin < x.rows; begin += batch) {
    const ExpertRows rows{begin, std::min(begin + batch, x.rows)};
    const Tensor inner = call.scratch.inner.Prefix((rows.end - rows.begin) * chosen);
    MultiplyInner(source, call, rows, inner);
    MultiplyOutputs(call, rows, inner, target, true);
  }
}

}  // namespace banyan::cuda
