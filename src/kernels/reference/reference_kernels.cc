// Memory, loading and the step; the arithmetic is in reference_network.cc and sampling.cc.
#include "kernels/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "base/error.h"
#include "kernels/hadamard.h"
#include "kernels/host_choices.h"
#include "kernels/page_form.h"
#include "kernels/reference/reference_network.h"
#include "kernels/reference/reference_states.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

namespace banyan::reference {

namespace {

void RoundToQ8(std::span<float> head) {
  HadamardHead(head);
  float largest = 0.0f;
  for (const float x : head) {
    if (!(std::fabs(x) <= largest)) largest = std::fabs(x);
    if (std::isnan(largest)) break;
  }
  const float scale = largest / 127.0f;
  for (float& x : head) x = scale == 0.0f ? 0.0f : std::nearbyint(x / scale) * scale;
  if (!std::isfinite(scale)) {
    for (float& x : head) x = std::nanf("");
  }
  HadamardHead(head);
}

// Calls visit(offset in the form's bytes, whether it is a value's, index in `keys` or `values`).
template <typename Visit>
void ForEachElement(const FloatKv& kv, std::span<const std::int32_t> pages, const Visit& visit) {
  std::int64_t layer_begin = 0;
  for (int layer = 0; layer < kv.shape.layers; ++layer) {
    const PageForm form = FormOfLayer(kv.shape, layer, KvType::kF32);
    for (size_t i = 0; i < pages.size(); ++i) {
      for (int head = 0; head < form.shape.kv_heads; ++head) {
        const std::int64_t block =
            layer_begin + static_cast<std::int64_t>(i) * form.page_bytes() + head * form.head_bytes;
        for (int token = 0; token < kPageTokens; ++token) {
          const size_t first = kv.Offset(layer, pages[i] * kPageTokens + token, head);
          for (int d = 0; d < form.shape.head_dim; ++d) {
            const size_t index = first + static_cast<size_t>(d);
            visit(block + 4 * PageForm::KeyIndex(token, d), false, index);
            visit(block + form.value_offset() + 4 * PageForm::ValueIndex(token, d), true, index);
          }
        }
      }
    }
    layer_begin += static_cast<std::int64_t>(pages.size()) * form.page_bytes();
  }
}

// Values of one token's keys in a layer.
size_t KeySize(const KvShape& shape, int layer) {
  const KvHeads heads = shape.Of(layer);
  return static_cast<size_t>(heads.heads) * static_cast<size_t>(heads.dim);
}

}  // namespace

std::span<const float> FloatMatrix::Row(std::int64_t row) const {
  BANYAN_CHECK(row >= 0 && row < rows);
  return std::span(values).subspan(static_cast<size_t>(row * columns),
                                   static_cast<size_t>(columns));
}

size_t FloatKv::Offset(int layer, std::int32_t slot, int kv_head) const {
  const std::int32_t page = slot / kPageTokens;
  const KvHeads heads = shape.Of(layer);
  BANYAN_CHECK(layer >= 0 && layer < shape.layers && slot >= 0 && page < pages);
  BANYAN_CHECK(kv_head >= 0 && kv_head < heads.heads);
  size_t before = 0;
  for (int other = 0; other < layer; ++other) {
    before += KeySize(shape, other) * static_cast<size_t>(pages) * kPageTokens;
  }
  const size_t head = static_cast<size_t>(page) * heads.heads + kv_head;
  return before + (head * kPageTokens + slot % kPageTokens) * heads.dim;
}

void FloatKv::Copy(const PageCopy& copy) {
  BANYAN_CHECK(copy.from >= 0 && copy.from < pages && copy.to >= 0 && copy.to < pages);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const size_t count = KeySize(shape, layer) * kPageTokens;
    const size_t from = Offset(layer, copy.from * kPageTokens, 0);
    const size_t to = Offset(layer, copy.to * kPageTokens, 0);
    std::copy_n(keys.data() + from, count, keys.data() + to);
    std::copy_n(values.data() + from, count, values.data() + to);
  }
}

void FloatKv::Read(std::span<const std::int32_t> page_list, std::span<std::byte> bytes) const {
  std::ranges::fill(bytes, std::byte{0});
  ForEachElement(*this, page_list, [&](std::int64_t at, bool value, size_t index) {
    std::memcpy(bytes.data() + at, (value ? values : keys).data() + index, sizeof(float));
  });
}

void FloatKv::Write(std::span<const std::byte> bytes, std::span<const std::int32_t> page_list) {
  ForEachElement(*this, page_list, [&](std::int64_t at, bool value, size_t index) {
    std::memcpy((value ? values : keys).data() + index, bytes.data() + at, sizeof(float));
  });
}

std::span<float> Row(Tensor& tensor, std::int64_t row) {
  auto& floats = *static_cast<std::vector<float>*>(tensor.memory.get());
  BANYAN_CHECK(row >= 0 && row < tensor.rows);
  BANYAN_CHECK(floats.size() >= static_cast<size_t>(tensor.rows * tensor.columns));
  return std::span(floats).subspan(static_cast<size_t>(row * tensor.columns),
                                   static_cast<size_t>(tensor.columns));
}

std::span<const float> Row(const Tensor& tensor, std::int64_t row) {
  Tensor same = tensor;
  return Row(same, row);
}

void RoundToKvType(KvType type, std::span<float> head) {
  switch (type) {
    case KvType::kF32:
      return;
    case KvType::kF16:
      for (float& x : head) x = F16ToFloat(FloatToF16(x));
      return;
    case KvType::kBF16:
      for (float& x : head) x = BF16ToFloat(FloatToBF16(x));
      return;
    case KvType::kQ8:
      RoundToQ8(head);
      return;
  }
  BANYAN_CHECK(false);
}

const Step& AsStep(const StepInputs& step) {
  const auto* known = dynamic_cast<const Step*>(&step);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

const FloatMatrix& AsFloats(const Matrix& matrix) {
  const auto* known = dynamic_cast<const FloatMatrix*>(&matrix);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

const FloatVector& AsFloats(const Vector& vector) {
  const auto* known = dynamic_cast<const FloatVector*>(&vector);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

FloatKv& AsFloats(KvMemory& kv) {
  auto* known = dynamic_cast<FloatKv*>(&kv);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

const FloatKv& AsFloats(const KvMemory& kv) {
  const auto* known = dynamic_cast<const FloatKv*>(&kv);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

}  // namespace banyan::reference

namespace banyan {

namespace {

using reference::AsFloats;
using reference::AsStep;

// Float32 values of every part, rows one after the other.
std::vector<float> Stack(std::span<const HostTensor* const> parts) {
  std::vector<float> stacked;
  for (const HostTensor* part : parts) {
    const size_t begin = stacked.size();
    stacked.resize(begin + static_cast<size_t>(part->rows() * part->columns()));
    Dequantize(part->dtype, part->bytes, std::span(stacked).subspan(begin));
  }
  return stacked;
}

// Which item writes each partial; checks that every partial belongs to exactly one.
std::vector<std::int32_t> ItemOfPartial(const AttentionPlan& plan) {
  std::vector<std::int32_t> item_of_partial(plan.partials, -1);
  for (size_t i = 0; i < plan.items.size(); ++i) {
    const WorkItem& item = plan.items[i];
    for (std::int32_t r = item.reader_begin; r < item.reader_end; ++r) {
      const std::int32_t partial = item.first_partial + r - item.reader_begin;
      BANYAN_CHECK(partial >= 0 && partial < plan.partials && item_of_partial[partial] == -1);
      item_of_partial[partial] = static_cast<std::int32_t>(i);
    }
  }
  return item_of_partial;
}

class ReferenceKernels final : public Kernels {
 public:
  explicit ReferenceKernels(const KernelOptions& options) : options_(options) {}

  std::string name() const override { return "reference"; }
  std::string arithmetic() const override { return "double"; }
  int attention_tasks() const override { return 1; }
  const KernelOptions& options() const override { return options_; }
  bool moves_states() const override { return true; }

  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override {
    BANYAN_CHECK(rows >= 0 && columns >= 0);
    // NaN, so that reading an unwritten value is noticed.
    return {std::make_shared<std::vector<float>>(
                NewFloats(static_cast<double>(rows) * static_cast<double>(columns), "activations")),
            rows, columns};
  }

  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override {
    BANYAN_CHECK(!parts.empty());
    auto matrix = std::make_shared<reference::FloatMatrix>();
    matrix->columns = parts.front()->columns();
    for (const HostTensor* part : parts) {
      BANYAN_CHECK(part->columns() == matrix->columns);
      matrix->rows += part->rows();
    }
    matrix->values = Stack(parts);
    if (!row_order.empty()) {
      std::vector<float> ordered;
      for (const std::int32_t row : row_order) {
        const std::span<const float> source = matrix->Row(row);
        ordered.insert(ordered.end(), source.begin(), source.end());
      }
      matrix->values = std::move(ordered);
      matrix->rows = static_cast<std::int64_t>(row_order.size());
    }
    matrix->bytes = static_cast<std::int64_t>(matrix->values.size() * sizeof(float));
    return matrix;
  }

  std::shared_ptr<const Matrix> ForProducts(std::shared_ptr<const Matrix> matrix) override {
    if (!options_.eight_bit_products) return matrix;
    return reference::QuantizeMatrix(AsFloats(*matrix));
  }

  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override {
    auto vector = std::make_shared<reference::FloatVector>();
    vector->values.assign(values.begin(), values.end());
    vector->size = static_cast<std::int64_t>(values.size());
    return vector;
  }

  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override {
    auto kv = std::make_shared<reference::FloatKv>();
    kv->shape = shape;
    kv->type = options_.kv_type;
    kv->pages = pages;
    const double floats = static_cast<double>(KvPageBytes(shape)) * pages / sizeof(float) / 2;
    kv->keys = NewFloats(floats, "keys");
    kv->values = NewFloats(floats, "values");
    return kv;
  }
  void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) override {
    for (const PageCopy& copy : copies) reference::AsFloats(kv).Copy(copy);
  }

  // What is kept are floats, rounded to the KV type.
  KvType page_type() const override { return KvType::kF32; }
  void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                 std::span<std::byte> bytes) override {
    reference::AsFloats(kv).Read(pages, bytes);
  }
  void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                  KvMemory& kv) override {
    reference::AsFloats(kv).Write(bytes, pages);
  }

  std::int64_t KvPageBytes(const KvShape& shape) const override {
    size_t floats = 0;
    for (int layer = 0; layer < shape.layers; ++layer) floats += reference::KeySize(shape, layer);
    return static_cast<std::int64_t>(2 * sizeof(float) * kPageTokens * floats);
  }

  void SetRopes(std::span<const RopeTable> ropes) override {
    ropes_.assign(ropes.begin(), ropes.end());
  }

  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& inputs) override {
    auto step = std::make_unique<reference::Step>();
    step->rows = batch.rows();
    step->logit_rows = static_cast<int>(batch.logit_rows.size());
    step->batch = batch;
    HostChoices::Resolve(earlier, step->batch.tokens);
    step->plan = plan;
    SetVariants(batch, *step);
    step->item_of_partial = ItemOfPartial(plan);
    for (const RopeTable& rope : ropes_) {
      reference::StepRope& turned = step->ropes.emplace_back();
      turned.rotary_dim = static_cast<int>(2 * rope.inverse_frequency.size());
      for (const std::int32_t position : batch.positions) {
        for (const float frequency : rope.inverse_frequency) {
          const float angle = static_cast<float>(position) * frequency;
          turned.cosines.push_back(static_cast<float>(std::cos(double{angle}) * rope.scale));
          turned.sines.push_back(static_cast<float>(std::sin(double{angle}) * rope.scale));
        }
        turned.query_factors.push_back(QueryFactor(rope, position));
      }
    }
    inputs = std::move(step);
  }

  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    reference::Embed(AsStep(step), AsFloats(table), out);
  }
  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override {
    reference::RmsNorm(x, AsFloats(weight).values, eps, out);
  }
  void RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                     Tensor& out) override {
    reference::RmsNormGroups(x, group, AsFloats(weight).values, eps, out);
  }
  MachineRates MeasureRates() override { return {}; }
  void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                 Tensor& out) override {
    reference::LayerNorm(x, AsFloats(weight), AsFloats(bias), eps, out);
  }
  void Clear(Tensor& x) override { reference::Clear(x); }
  void Add(const Tensor& delta, Tensor& x) override { reference::Add(delta, x); }
  void Scale(float factor, Tensor& x) override { reference::Scale(factor, x); }
  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override {
    reference::MatMul(x, AsFloats(w), bias == nullptr ? nullptr : &AsFloats(*bias), out);
  }
  void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) override {
    reference::AddLowRank(AsStep(call.step), call.rows, static_cast<const FactorTable&>(call.table),
                          x, out);
  }
  void EmbedRange(const StepInputs& step, const Matrix& table, std::int64_t first,
                  Tensor& out) override {
    reference::EmbedRange(AsStep(step), AsFloats(table), first, out);
  }
  void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows,
                   Tensor& inner) override {
    reference::ExpertInner(x, call, rows, inner);
  }
  void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& all,
                     Tensor& out) override {
    reference::ExpertOutputs(call, rows, all, out);
  }
  void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) override {
    reference::MixExperts(x, call, out);
  }
  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override {
    reference::RotateAndStore({AsStep(step), layer, shape}, norm, qkv, AsFloats(kv));
  }
  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override {
    reference::Attend({AsStep(step), layer, shape}, qkv, AsFloats(kv), out);
  }
  void Glu(Gate gate, const Tensor& x, Tensor& out) override { reference::Glu(gate, x, out); }
  void GateColumns(Gate gate, const Tensor& gates, const Tensor& values, std::int64_t first,
                   Tensor& out) override {
    reference::GateColumns(gate, gates, values, first, out);
  }
  void GateRows(Gate gate, const Tensor& gates, Tensor& x) override {
    reference::GateRows(gate, gates, x);
  }
  void Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                Tensor& out) override {
    reference::Convolve(AsStep(step), call, AsHostStates(states), out);
  }
  void Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
            Tensor& out) override {
    reference::Scan(AsStep(step), call, AsHostStates(states), out);
  }
  void CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out) override {
    reference::CopyColumns(x, columns, out);
  }
  void Activate(Activation f, Tensor& x) override { reference::Activate(f, x); }
  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override {
    reference::GatherLogitRows(AsStep(step), x, out);
  }

  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override {
    HostWorkers workers;
    workers.for_each = [](std::int64_t count, const std::function<void(std::int64_t)>& part) {
      for (std::int64_t i = 0; i < count; ++i) part(i);
    };
    workers.select = [](const LogitRows& rows, std::span<const SamplingRow> asked,
                        std::span<TokenChoice> made) {
      for (size_t i = 0; i < asked.size(); ++i) {
        made[i] = SelectToken(rows.Row(asked[i].row), asked[i]);
      }
    };
    workers.log_sum = [](std::span<const float> row) { return LogSumExp(row); };
    ChooseOnHost(RowsOf(logits), requests, panels, workers, choices);
  }
  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override {
    BANYAN_CHECK(choices.size() >= requests.size());
    for (size_t r = 0; r < requests.size(); ++r) {
      choices[r] = SelectToken(reference::Row(logits, requests[r].row), requests[r]);
    }
  }
  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override {
    const auto columns = static_cast<size_t>(x.columns);
    BANYAN_CHECK(out.size() % columns == 0);
    for (size_t at = 0; at < out.size(); at += columns) {
      std::ranges::copy(reference::Row(x, row++), out.subspan(at).begin());
    }
  }

 private:
  // A step may have no logits at all.
  static LogitRows RowsOf(const Tensor& logits) {
    const float* first = logits.rows > 0 ? reference::Row(logits, 0).data() : nullptr;
    return {first, logits.columns, logits.columns};
  }

  // `count` is a double so that no product of sizes can wrap around.
  static std::vector<float> NewFloats(double count, const char* what) {
    if (count > 1e12) Throw(ErrorKind::kLimit, "{}: {:.0f} values asked for at once", what, count);
    try {
      return std::vector<float>(static_cast<size_t>(count),
                                std::numeric_limits<float>::quiet_NaN());
    } catch (const std::bad_alloc&) {
      Throw(ErrorKind::kLimit, "no memory for {}: {:.0f} float32 values", what, count);
    }
  }

  KernelOptions options_;
  std::vector<RopeTable> ropes_;
};

}  // namespace

std::unique_ptr<Kernels> MakeReferenceKernels(const KernelOptions& options) {
  return std::make_unique<ReferenceKernels>(options);
}

}  // namespace banyan
