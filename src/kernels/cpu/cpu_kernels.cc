#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "kernels/cpu/kv_pages.h"
#include "kernels/cpu/machine_rates.h"
#include "kernels/hadamard.h"
#include "kernels/host_choices.h"

namespace banyan {
namespace {
// Least rows that a thread takes: a few microseconds of work.
std::int64_t RowsTogether(std::int64_t columns) {
  return 1 + 8192 / std::max<std::int64_t>(columns, 1);
}
// The same for operations that take longer per value.
std::int64_t FewRowsTogether(std::int64_t columns) { return 1 + RowsTogether(columns) / 4; }

const PackedMatrix& Packed(const Matrix& matrix) {
  return static_cast<const PackedMatrix&>(matrix);
}

// Cosines, sines and query factors of a step's rows for one RopeTable.
struct RopeRows {
  size_t pairs = 0;                 // rotary_dim / 2
  std::vector<float> cosine, sine;  // [rows, pairs]
  std::vector<float> query_factor;  // [rows], or empty: 1
};

class CpuStep : public StepInputs {
 public:
  Batch batch;
  AttentionPlan plan;
  std::vector<RopeRows> ropes;  // of SetRopes
  std::vector<VariantRun> runs, logit_runs;
};
const CpuStep& Cpu(const StepInputs& step) { return static_cast<const CpuStep&>(step); }

void ComputeRope(const Batch& batch, const RopeTable& rope, ThreadPool& pool, RopeRows& rows) {
  const size_t pairs = rope.inverse_frequency.size();
  rows.pairs = pairs;
  rows.cosine.resize(pairs * batch.tokens.size());
  rows.sine.resize(pairs * batch.tokens.size());
  rows.query_factor.resize(rope.query_interval > 0 ? batch.tokens.size() : 0);
  pool.ForEach(batch.rows(), FewRowsTogether(64 * static_cast<std::int64_t>(pairs)),
               [&](std::int64_t row, int) {
                 const std::int32_t at_position = batch.positions[static_cast<size_t>(row)];
                 const float position = static_cast<float>(at_position);
                 for (size_t i = 0; i < pairs; ++i) {
                   const double angle = position * rope.inverse_frequency[i];
                   const size_t at = static_cast<size_t>(row) * pairs + i;
                   rows.cosine[at] = static_cast<float>(std::cos(angle)) * rope.scale;
                   rows.sine[at] = static_cast<float>(std::sin(angle)) * rope.scale;
                 }
                 if (!rows.query_factor.empty()) {
                   rows.query_factor[static_cast<size_t>(row)] = QueryFactor(rope, at_position);
                 }
               });
}

// Rows of logits that exist at once when they are only chosen from: as many as fill the loops of
// products (machine_rates.cc measures with as many). More would be read back from memory.
constexpr std::int64_t kLogitRows = 48;

}  // namespace

// --- Memory and loading --------------------------------------------------------------------------

std::string CpuKernels::name() const {
  return fmt::format("cpu ({}, {} thread{})", path_.name, pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

MachineRates CpuKernels::MeasureRates() {
  return MeasureCpuRates(path_, quantized_, LoadedBytes(), pool_);
}

Tensor CpuKernels::NewTensor(std::int64_t rows, std::int64_t columns) {
  const size_t bytes = static_cast<size_t>(rows * Stride(columns)) * sizeof(float);
  constexpr size_t kAlignment = 64;
  const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    Throw(ErrorKind::kLimit, "no memory for activations: {} bytes", rounded);
  }
  return Tensor{std::shared_ptr<void>(memory, std::free), rows, columns};
}

// All groups start at the same address, in memory for the largest.
std::vector<std::vector<Tensor>> CpuKernels::NewTensorGroups(std::span<const TensorGroup> groups) {
  const auto floats = [](const TensorShape& shape) { return shape.rows * Stride(shape.columns); };
  std::int64_t most = 0;
  for (const TensorGroup& group : groups) {
    std::int64_t needed = 0;
    for (const TensorShape& shape : group) needed += floats(shape);
    most = std::max(most, needed);
  }
  const Tensor all = NewTensor(1, most);
  std::vector<std::vector<Tensor>> made;
  for (const TensorGroup& group : groups) {
    std::vector<Tensor>& tensors = made.emplace_back();
    float* next = Data(all);
    for (const TensorShape& shape : group) {
      tensors.push_back({std::shared_ptr<void>(all.memory, next), shape.rows, shape.columns});
      next += floats(shape);
    }
  }
  return made;
}

std::shared_ptr<const Matrix> CpuKernels::LoadMatrix(std::span<const HostTensor* const> parts,
                                                     std::span<const std::int32_t> row_order) {
  auto matrix = PackMatrix(
      parts, row_order,
      {options_.precision == Precision::kMixed, path_.integer.interleave, path_.integer.bias},
      pool_);
  quantized_ = quantized_ || matrix->quantized();
  std::erase_if(loaded_, [](const auto& loaded) { return loaded.expired(); });
  loaded_.push_back(matrix);
  return matrix;
}

std::shared_ptr<const Vector> CpuKernels::LoadVector(std::span<const float> values) {
  auto vector = std::make_shared<FloatVector>();
  vector->values.assign(values.begin(), values.end());
  vector->size = static_cast<std::int64_t>(values.size());
  return vector;
}

std::shared_ptr<KvMemory> CpuKernels::NewKvMemory(const KvShape& shape, int pages) {
  return std::make_shared<KvPages>(shape, pages, options_.kv_type);
}

void CpuKernels::CopyPages(std::span<const PageCopy> copies, KvMemory& kv) {
  auto& pages = static_cast<KvPages&>(kv);
  pool_.ForEach(static_cast<std::int64_t>(copies.size()),
                [&](std::int64_t i, int) { pages.Copy(copies[static_cast<size_t>(i)]); });
}

void CpuKernels::ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                           std::span<std::byte> bytes) {
  const auto& memory = static_cast<const KvPages&>(kv);
  const auto count = static_cast<std::int64_t>(pages.size());
  pool_.ForEach(count, [&](std::int64_t i, int) {
    memory.Read(pages[static_cast<size_t>(i)], {i, count}, bytes);
  });
}

void CpuKernels::WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                            KvMemory& kv) {
  auto& memory = static_cast<KvPages&>(kv);
  const auto count = static_cast<std::int64_t>(pages.size());
  pool_.ForEach(count, [&](std::int64_t i, int) {
    memory.Write(pages[static_cast<size_t>(i)], {i, count}, bytes);
  });
}

std::int64_t CpuKernels::KvPageBytes(const KvShape& shape) const {
  return KvPages::PageBytes(shape, options_.kv_type);
}

void CpuKernels::SetRopes(std::span<const RopeTable> ropes) {
  ropes_.assign(ropes.begin(), ropes.end());
}

void CpuKernels::Download(const Tensor& x, std::int64_t row, std::span<float> out) {
  const auto columns = static_cast<size_t>(x.columns);
  for (size_t at = 0; at < out.size(); at += columns) {
    std::copy_n(Row(x, row++), std::min(columns, out.size() - at), out.data() + at);
  }
}

std::vector<std::span<const std::byte>> CpuKernels::LoadedBytes() const {
  std::vector<std::span<const std::byte>> bytes;
  for (const std::weak_ptr<const PackedMatrix>& loaded : loaded_) {
    const std::shared_ptr<const PackedMatrix> matrix = loaded.lock();
    if (matrix == nullptr) continue;
    for (const PackedPart& part : matrix->parts) {
      bytes.push_back(std::as_bytes(std::span(part.f32)));
      bytes.push_back(std::as_bytes(std::span(part.half)));
      bytes.push_back(std::as_bytes(std::span(part.codes)));
      bytes.push_back(std::as_bytes(std::span(part.scales)));
      bytes.push_back(std::as_bytes(std::span(part.minima)));
    }
  }
  return bytes;
}

// --- A step through the network ------------------------------------------------------------------

void CpuKernels::Upload(const Batch& batch, const AttentionPlan& plan,
                        const PendingChoices* earlier, std::unique_ptr<StepInputs>& inputs) {
  if (inputs == nullptr) inputs = std::make_unique<CpuStep>();
  auto* step = static_cast<CpuStep*>(inputs.get());
  step->rows = batch.rows();
  step->logit_rows = static_cast<int>(batch.logit_rows.size());
  step->batch = batch;
  HostChoices::Resolve(earlier, step->batch.tokens);
  step->plan = plan;
  SetVariants(batch, *step);
  if (step->adapted) {
    step->runs = RunsOfVariants(batch, StepRows::kAll);
    step->logit_runs = RunsOfVariants(batch, StepRows::kLogits);
  }
  step->ropes.resize(ropes_.size());
  for (size_t i = 0; i < ropes_.size(); ++i) ComputeRope(batch, ropes_[i], pool_, step->ropes[i]);
}

void CpuKernels::EmbedRange(const StepInputs& step, const Matrix& table, std::int64_t first,
                            Tensor& out) {
  pool_.ForEach(step.rows, FewRowsTogether(out.columns), [&](std::int64_t row, int) {
    const std::int64_t at = Cpu(step).batch.tokens[static_cast<size_t>(row)] - first;
    if (at >= 0 && at < table.rows) UnpackRow(Packed(table), at, Row(out, row));
  });
}

void CpuKernels::RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) {
  pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    vector_.rms_norm(Row(x, row), Values(weight), static_cast<int>(x.columns), eps, Row(out, row));
  });
}

void CpuKernels::RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                               Tensor& out) {
  BANYAN_CHECK(group > 0 && x.columns % group == 0);
  BANYAN_CHECK(weight.size == group || weight.size == x.columns);
  pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    for (std::int64_t first = 0; first < x.columns; first += group) {
      const float* weights = Values(weight) + (weight.size == group ? 0 : first);
      vector_.rms_norm(Row(x, row) + first, weights, static_cast<int>(group), eps,
                       Row(out, row) + first);
    }
  });
}

void CpuKernels::LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                           Tensor& out) {
  pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    vector_.layer_norm(Row(x, row), Values(weight), Values(bias), static_cast<int>(x.columns), eps,
                       Row(out, row));
  });
}

void CpuKernels::Clear(Tensor& x) {
  std::memset(Data(x), 0, static_cast<size_t>(x.rows * Stride(x.columns)) * sizeof(float));
}

void CpuKernels::Add(const Tensor& delta, Tensor& x) {
  pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    vector_.add(Row(delta, row), x.columns, Row(x, row));
  });
}

void CpuKernels::Scale(float factor, Tensor& x) {
  pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    for (float* value = Row(x, row); value != Row(x, row) + x.columns; ++value) *value *= factor;
  });
}

void CpuKernels::MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) {
  BANYAN_CHECK(out.columns == w.rows);
  Multiply(Packed(w), ProductOf(x, w, bias, out), products_);
}

void CpuKernels::MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor&,
                           Tensor& x) {
  BANYAN_CHECK(x.columns == w.rows);
  MultiplyAndAdd(Packed(w), ProductOf(a, w, bias, x), products_);
}

void CpuKernels::MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                           Tensor& out) {
  const Matrix& w = product.w;
  if (w.rows % (2 * kPanelWidth) != 0) return Kernels::MatMulGlu(x, product, scratch, out);
  BANYAN_CHECK(2 * out.columns == w.rows);
  MultiplyGated(Packed(w), ProductOf(x, w, product.bias, out), LoopOf(product.gate), products_);
}

void CpuKernels::AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) {
  BANYAN_CHECK(x.columns == call.table.columns && out.columns == call.table.rows);
  const CpuStep& step = Cpu(call.step);
  const auto& table = static_cast<const FactorTable&>(call.table);
  for (const VariantRun& run : call.rows == StepRows::kAll ? step.runs : step.logit_runs) {
    for (const LowRankFactors& factors : table.Of(run.variant)) {
      AddFactors(factors, run, x, call.scratch, out);
    }
  }
}

void CpuKernels::RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                                const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) {
  auto& pages = static_cast<KvPages&>(kv);
  const CpuStep& cpu = Cpu(step);
  const int dim = shape.head_dim;
  const int stored = shape.stores ? shape.kv_heads : 0;  // heads of keys and of values in a row
  const RopeRows* rope =
      shape.rope == kNoRope ? nullptr : &cpu.ropes.at(static_cast<size_t>(shape.rope));
  BANYAN_CHECK(rope == nullptr || 2 * rope->pairs <= static_cast<size_t>(dim));
  pool_.ForEach(step.rows, FewRowsTogether(qkv.columns), [&](std::int64_t row, int) {
    float* query = Row(qkv, row);
    float* key = query + static_cast<std::int64_t>(shape.heads) * dim;
    float* value = key + static_cast<std::int64_t>(stored) * dim;
    if (norm.query != nullptr) {
      NormHeads(query, Values(*norm.query), shape.heads, dim, norm);
      if (stored > 0) NormHeads(key, Values(*norm.key), stored, dim, norm);
    }
    for (int head = 0; head < (norm.value != nullptr ? stored : 0); ++head) {
      float* one = value + head * dim;
      vector_.rms_norm(one, Values(*norm.value), dim, norm.eps, one);
    }
    if (rope != nullptr) {
      const float* cosine = rope->cosine.data() + static_cast<size_t>(row) * rope->pairs;
      const float* sine = rope->sine.data() + static_cast<size_t>(row) * rope->pairs;
      const int half = static_cast<int>(rope->pairs);
      for (float* head = query; head != value; head += dim) {
        vector_.rotate(cosine, sine, half, head);
      }
      if (!rope->query_factor.empty()) {
        const float factor = rope->query_factor[static_cast<size_t>(row)];
        for (float* q = query; q != key; ++q) *q *= factor;
      }
    }
    if (pages.hadamard()) {
      float* end = value + static_cast<std::int64_t>(stored) * dim;
      for (float* head = query; head != end; head += dim) {
        HadamardHead({head, static_cast<size_t>(dim)});
      }
    }
    for (int head = 0; head < stored; ++head) {
      pages.Store(vector_, layer, head, cpu.batch.slots[static_cast<size_t>(row)], key + head * dim,
                  value + head * dim);
    }
  });
}

void CpuKernels::Attend(const StepInputs& step, int layer, const AttentionShape& shape,
                        const Tensor& qkv, const KvMemory& kv, Tensor& out) {
  const CpuStep& cpu = Cpu(step);
  const AttentionCall call{cpu.plan,
                           cpu.batch.positions,
                           layer,
                           shape,
                           Data(qkv),
                           Stride(qkv.columns),
                           static_cast<const KvPages&>(kv),
                           Data(out),
                           Stride(out.columns),
                           shape.sinks == nullptr ? nullptr : Values(*shape.sinks)};
  AttendOnCpu(call, vector_, pool_, attention_);
}

void CpuKernels::Glu(Gate gate, const Tensor& x, Tensor& out) {
  const GluLoop glu = LoopOf(gate);
  pool_.ForEach(out.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    glu(Row(x, row), Row(x, row) + out.columns, out.columns, Row(out, row));
  });
}

void CpuKernels::GateColumns(Gate gate, const Tensor& gates, const Tensor& values,
                             std::int64_t first, Tensor& out) {
  BANYAN_CHECK(gates.columns == out.columns && first + out.columns <= values.columns);
  const GluLoop glu = LoopOf(gate);
  pool_.ForEach(out.rows, RowsTogether(out.columns), [&](std::int64_t row, int) {
    glu(Row(gates, row), Row(values, row) + first, out.columns, Row(out, row));
  });
}

void CpuKernels::GateRows(Gate gate, const Tensor& gates, Tensor& x) {
  const GluLoop glu = LoopOf(gate);
  pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
    const float one = 1.0f;
    float factor = 0.0f;
    glu(Row(gates, row), &one, 1, &factor);
    vector_.scale(Row(x, row), factor, x.columns, Row(x, row));
  });
}

void CpuKernels::Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                          Tensor& out) {
  states_.Convolve(Cpu(step).batch, call, AsHostStates(states), out);
}

void CpuKernels::Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
                      Tensor& out) {
  states_.Scan(Cpu(step).batch, call, AsHostStates(states), out);
}

void CpuKernels::CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out) {
  BANYAN_CHECK(x.rows == out.rows && columns.from + columns.count <= x.columns &&
               columns.to + columns.count <= out.columns);
  pool_.ForEach(x.rows, RowsTogether(columns.count), [&](std::int64_t row, int) {
    std::copy_n(Row(x, row) + columns.from, columns.count, Row(out, row) + columns.to);
  });
}

void CpuKernels::Activate(Activation f, Tensor& x) {
  pool_.ForEach(x.rows, FewRowsTogether(x.columns), [&](std::int64_t row, int) {
    float* values = Row(x, row);
    if (f == Activation::kGelu) return vector_.gelu(x.columns, values);
    for (std::int64_t i = 0; i < x.columns; ++i) values[i] = std::tanh(values[i]);
  });
}

void CpuKernels::GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) {
  const std::vector<std::int32_t>& rows = Cpu(step).batch.logit_rows;
  pool_.ForEach(static_cast<std::int64_t>(rows.size()), RowsTogether(x.columns),
                [&](std::int64_t i, int) {
                  std::memcpy(Row(out, i), Row(x, rows[static_cast<size_t>(i)]),
                              static_cast<size_t>(x.columns) * sizeof(float));
                });
}

ProductRows CpuKernels::ProductOf(const Tensor& x, const Matrix& w, const Vector* bias,
                                  Tensor& out) {
  BANYAN_CHECK(x.columns == w.columns && x.rows == out.rows);
  ProductRows rows;
  rows.x = Data(x);
  rows.x_stride = Stride(x.columns);
  rows.rows = static_cast<int>(x.rows);
  rows.bias = bias == nullptr ? nullptr : Values(*bias);
  rows.out = Data(out);
  rows.out_stride = Stride(out.columns);
  return rows;
}

void CpuKernels::AddFactors(const LowRankFactors& factors, const VariantRun& run, const Tensor& x,
                            const Tensor& inner, Tensor& out) {
  const std::int64_t rank = factors.a->rows;
  BANYAN_CHECK(rank <= inner.columns && run.end <= x.rows);
  ProductRows product;
  product.rows = static_cast<int>(run.end - run.begin);
  product.x = Row(x, run.begin);
  product.x_stride = Stride(x.columns);
  product.out = Data(inner);
  product.out_stride = Stride(inner.columns);
  Multiply(Packed(*factors.a), product, products_);
  for (int row = 0; row < product.rows; ++row) {
    float* values = Row(inner, row);
    for (std::int64_t k = 0; k < rank; ++k) values[k] *= factors.scale;
  }
  product.x = Data(inner);
  product.x_stride = Stride(inner.columns);
  product.out = Row(out, run.begin) + factors.first_row;
  product.out_stride = Stride(out.columns);
  MultiplyAndAdd(Packed(*factors.b), product, products_);
}

void CpuKernels::NormHeads(float* values, const float* weight, int heads, int dim,
                           const QkNormWeights& norm) const {
  if (norm.whole) return vector_.rms_norm(values, weight, heads * dim, norm.eps, values);
  for (int head = 0; head < heads; ++head) {
    vector_.rms_norm(values + head * dim, weight, dim, norm.eps, values + head * dim);
  }
}

// In parts of equally many rows that share memory: the logits of 256 streams would be as large as
// half of a small model.
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

std::unique_ptr<Kernels> MakeCpuKernels(const KernelOptions& options) {
  if (options.eight_bit_products) {
    Throw(ErrorKind::kUnsupported,
          "device cpu: --precision w8a8 is for device cuda; here mixed has 8-bit activations for "
          "quantised weights");
  }
  return std::make_unique<CpuKernels>(options);
}

}  // namespace banyan
