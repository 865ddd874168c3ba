#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_path.h"
#include "kernels/cpu/kv_pages.h"
#include "kernels/cpu/machine_rates.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/selection.h"
#include "kernels/cpu/vector_kernels.h"
#include "kernels/host_choices.h"
#include "kernels/host_panels.h"

namespace banyan {
namespace {

// Rows are padded to whole panels, so that a product may write its last panel in full.
std::int64_t Stride(std::int64_t columns) { return (columns + 15) / 16 * 16; }
float* Data(const Tensor& tensor) { return static_cast<float*>(tensor.memory.get()); }
float* Row(const Tensor& tensor, std::int64_t row) {
  return Data(tensor) + row * Stride(tensor.columns);
}

// Rows that a thread takes at least: a few microseconds of work.
std::int64_t RowsTogether(std::int64_t columns) {
  return 1 + 8192 / std::max<std::int64_t>(columns, 1);
}
// The same for operations that take longer for a value.
std::int64_t FewRowsTogether(std::int64_t columns) { return 1 + RowsTogether(columns) / 4; }

// Rows of logits that are there at once where they are only chosen from: as many as fill the loops
// of products (machine_rates.cc measures with as many). More would be read again from memory.
constexpr std::int64_t kLogitRows = 48;

class FloatVector : public Vector {
 public:
  std::vector<float> values;
};
const float* Values(const Vector& vector) {
  return static_cast<const FloatVector&>(vector).values.data();
}
const PackedMatrix& Packed(const Matrix& matrix) {
  return static_cast<const PackedMatrix&>(matrix);
}

class CpuStep : public StepInputs {
 public:
  Batch batch;
  AttentionPlan plan;
  std::vector<float> cosine, sine;  // [rows, rotary_dim / 2]
  std::vector<VariantRun> runs, logit_runs;
};
LogitRows RowsOf(const Tensor& logits) {
  return {Row(logits, 0), Stride(logits.columns), logits.columns};
}
const CpuStep& Cpu(const StepInputs& step) { return static_cast<const CpuStep&>(step); }

class CpuKernels : public Kernels {
 public:
  explicit CpuKernels(const KernelOptions& options) : options_(options), pool_(options.threads) {}

  std::string name() const override {
    return fmt::format("cpu ({}, {} thread{})", path_.name, pool_.size(),
                       pool_.size() == 1 ? "" : "s");
  }
  std::string arithmetic() const override { return "cpu"; }  // of all paths (cpu_path.h)
  int attention_tasks() const override { return 4 * pool_.size(); }
  const KernelOptions& options() const override { return options_; }

  MachineRates MeasureRates() override {
    return MeasureCpuRates(path_, has_codes_, LoadedBytes(), pool_);
  }

  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override {
    const size_t bytes = static_cast<size_t>(rows * Stride(columns)) * sizeof(float);
    constexpr size_t kAlignment = 64;
    const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    void* memory = std::aligned_alloc(kAlignment, rounded);
    if (memory == nullptr) {
      Throw(ErrorKind::kLimit, "no memory for activations: {} rows x {} columns", rows, columns);
    }
    return Tensor{std::shared_ptr<void>(memory, std::free), rows, columns};
  }

  // All groups begin where the memory of the largest does.
  std::vector<std::vector<Tensor>> NewTensorGroups(std::span<const TensorGroup> groups) override {
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

  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override {
    auto matrix = PackMatrix(
        parts, row_order,
        {options_.precision == Precision::kMixed, path_.integer.interleave, path_.integer.bias},
        pool_);
    has_codes_ = has_codes_ || matrix->has_codes();
    loaded_.push_back(matrix);
    return matrix;
  }

  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override {
    auto vector = std::make_shared<FloatVector>();
    vector->values.assign(values.begin(), values.end());
    vector->size = static_cast<std::int64_t>(values.size());
    return vector;
  }

  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override {
    return std::make_shared<KvPages>(shape, pages, options_.kv_type);
  }
  void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) override {
    auto& pages = static_cast<KvPages&>(kv);
    pool_.ForEach(static_cast<std::int64_t>(copies.size()),
                  [&](std::int64_t i, int) { pages.Copy(copies[static_cast<size_t>(i)]); });
  }
  void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                 std::span<std::byte> bytes) override {
    const auto& memory = static_cast<const KvPages&>(kv);
    const auto count = static_cast<std::int64_t>(pages.size());
    pool_.ForEach(count, [&](std::int64_t i, int) {
      memory.Read(pages[static_cast<size_t>(i)], {i, count}, bytes);
    });
  }
  void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                  KvMemory& kv) override {
    auto& memory = static_cast<KvPages&>(kv);
    const auto count = static_cast<std::int64_t>(pages.size());
    pool_.ForEach(count, [&](std::int64_t i, int) {
      memory.Write(pages[static_cast<size_t>(i)], {i, count}, bytes);
    });
  }
  std::int64_t KvPageBytes(const KvShape& shape) const override {
    return KvPages::PageBytes(shape, options_.kv_type);
  }

  void SetRope(std::span<const float> inverse_frequency, float scale) override {
    inverse_frequency_.assign(inverse_frequency.begin(), inverse_frequency.end());
    rope_scale_ = scale;
  }

  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& inputs) override {
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
    const size_t pairs = inverse_frequency_.size();
    step->cosine.resize(pairs * batch.tokens.size());
    step->sine.resize(pairs * batch.tokens.size());
    pool_.ForEach(batch.rows(), FewRowsTogether(64 * static_cast<std::int64_t>(pairs)),
                  [&](std::int64_t row, int) {
                    const float position =
                        static_cast<float>(batch.positions[static_cast<size_t>(row)]);
                    for (size_t i = 0; i < pairs; ++i) {
                      const double angle = position * inverse_frequency_[i];
                      const size_t at = static_cast<size_t>(row) * pairs + i;
                      step->cosine[at] = static_cast<float>(std::cos(angle)) * rope_scale_;
                      step->sine[at] = static_cast<float>(std::sin(angle)) * rope_scale_;
                    }
                  });
  }

  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    pool_.ForEach(step.rows, FewRowsTogether(out.columns), [&](std::int64_t row, int) {
      UnpackRow(Packed(table), Cpu(step).batch.tokens[static_cast<size_t>(row)], Row(out, row));
    });
  }

  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override {
    pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
      vector_.rms_norm(Row(x, row), Values(weight), static_cast<int>(x.columns), eps,
                       Row(out, row));
    });
  }

  void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                 Tensor& out) override {
    pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
      vector_.layer_norm(Row(x, row), Values(weight), Values(bias), static_cast<int>(x.columns),
                         eps, Row(out, row));
    });
  }

  void Clear(Tensor& x) override {
    std::memset(Data(x), 0, static_cast<size_t>(x.rows * Stride(x.columns)) * sizeof(float));
  }

  void Add(const Tensor& delta, Tensor& x) override {
    pool_.ForEach(x.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
      vector_.add(Row(delta, row), x.columns, Row(x, row));
    });
  }

  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override {
    BANYAN_CHECK(out.columns == w.rows);
    Multiply(Packed(w), ProductOf(x, w, bias, out), products_);
  }

  void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor&,
                 Tensor& x) override {
    BANYAN_CHECK(x.columns == w.rows);
    MultiplyAndAdd(Packed(w), ProductOf(a, w, bias, x), products_);
  }

  void MatMulSwiGlu(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& scratch,
                    Tensor& out) override {
    if (w.rows % (2 * kPanelWidth) != 0) {
      return Kernels::MatMulSwiGlu(x, w, bias, scratch, out);
    }
    BANYAN_CHECK(2 * out.columns == w.rows);
    MultiplyGated(Packed(w), ProductOf(x, w, bias, out), products_);
  }

  void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) override {
    BANYAN_CHECK(x.columns == call.table.columns && out.columns == call.table.rows);
    const CpuStep& step = Cpu(call.step);
    const auto& table = static_cast<const FactorTable&>(call.table);
    for (const VariantRun& run : call.rows == StepRows::kAll ? step.runs : step.logit_runs) {
      for (const LowRankFactors& factors : table.Of(run.variant)) {
        AddFactors(factors, run, x, call.scratch, out);
      }
    }
  }

  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override {
    auto& pages = static_cast<KvPages&>(kv);
    const CpuStep& cpu = Cpu(step);
    const int dim = shape.head_dim;
    pool_.ForEach(step.rows, FewRowsTogether(qkv.columns), [&](std::int64_t row, int) {
      float* query = Row(qkv, row);
      float* key = query + static_cast<std::int64_t>(shape.heads) * dim;
      const float* value = key + static_cast<std::int64_t>(shape.kv_heads) * dim;
      if (norm.query != nullptr) {
        NormHeads(query, Values(*norm.query), shape.heads, dim, norm);
        NormHeads(key, Values(*norm.key), shape.kv_heads, dim, norm);
      }
      const size_t pairs = inverse_frequency_.size();
      const float* cosine = cpu.cosine.data() + static_cast<size_t>(row) * pairs;
      const float* sine = cpu.sine.data() + static_cast<size_t>(row) * pairs;
      const int half = static_cast<int>(pairs);
      for (int head = 0; head < shape.heads; ++head) {
        vector_.rotate(cosine, sine, half, query + head * dim);
      }
      for (int head = 0; head < shape.kv_heads; ++head) {
        vector_.rotate(cosine, sine, half, key + head * dim);
        pages.Store(vector_, layer, head, cpu.batch.slots[static_cast<size_t>(row)],
                    key + head * dim, value + head * dim);
      }
    });
  }

  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override {
    const CpuStep& cpu = Cpu(step);
    const AttentionCall call{cpu.plan,
                             cpu.batch.positions,
                             layer,
                             shape,
                             Data(qkv),
                             Stride(qkv.columns),
                             static_cast<const KvPages&>(kv),
                             Data(out),
                             Stride(out.columns)};
    AttendOnCpu(call, vector_, pool_, attention_);
  }

  void SwiGlu(const Tensor& x, Tensor& out) override {
    pool_.ForEach(out.rows, RowsTogether(x.columns), [&](std::int64_t row, int) {
      vector_.swiglu(Row(x, row), Row(x, row) + out.columns, out.columns, Row(out, row));
    });
  }

  void Activate(Activation f, Tensor& x) override {
    pool_.ForEach(x.rows, FewRowsTogether(x.columns), [&](std::int64_t row, int) {
      float* values = Row(x, row);
      if (f == Activation::kGelu) return vector_.gelu(x.columns, values);
      for (std::int64_t i = 0; i < x.columns; ++i) values[i] = std::tanh(values[i]);
    });
  }

  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override {
    const std::vector<std::int32_t>& rows = Cpu(step).batch.logit_rows;
    pool_.ForEach(static_cast<std::int64_t>(rows.size()), RowsTogether(x.columns),
                  [&](std::int64_t i, int) {
                    std::memcpy(Row(out, i), Row(x, rows[static_cast<size_t>(i)]),
                                static_cast<size_t>(x.columns) * sizeof(float));
                  });
  }

  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override {
    HostWorkers workers;
    workers.for_each = [this](std::int64_t count, const std::function<void(std::int64_t)>& part) {
      pool_.ForEach(count, [&](std::int64_t i, int) { part(i); });
    };
    workers.select = [this](const LogitRows& rows, std::span<const SamplingRow> asked,
                            std::span<TokenChoice> made) {
      SelectTokensOnCpu(rows, asked, made, {vector_, pool_, selection_});
    };
    ChooseOnHost(RowsOf(logits), requests, panels, workers, choices);
  }

  // Parts of equally many rows, each chosen from before the next takes its memory: the logits of
  // 256 streams would be as large as half of a small model.
  void MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                    std::span<const SamplingRow> requests,
                    std::unique_ptr<PendingChoices>& pending) override {
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

  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override {
    SelectTokensOnCpu(RowsOf(logits), requests, choices, {vector_, pool_, selection_});
  }

  void ScoreTokens(const Tensor& logits, std::span<const std::int32_t> rows,
                   std::span<const TokenId> tokens, std::span<float> logprobs) override {
    pool_.ForEach(static_cast<std::int64_t>(rows.size()), [&](std::int64_t i, int) {
      const size_t at = static_cast<size_t>(i);
      const std::span<const float> row = RowsOf(logits).Row(rows[at]);
      const size_t token = static_cast<size_t>(tokens[at]);
      BANYAN_CHECK(token < row.size());
      logprobs[at] = LogSumOnCpu(row, vector_).Logprob(row[token]);
    });
  }

  void FuseLogits(const Tensor& logits, std::span<const PanelRow> panels, Tensor& fused) override {
    BANYAN_CHECK(fused.columns == logits.columns);
    pool_.ForEach(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i, int) {
      FusePanel(RowsOf(logits), panels[static_cast<size_t>(i)],
                {Row(fused, i), static_cast<size_t>(fused.columns)});
    });
  }

  void FindWinners(const Tensor& logits, std::span<const PanelRow> panels,
                   std::span<const TokenId> tokens, std::span<std::int32_t> winners) override {
    pool_.ForEach(static_cast<std::int64_t>(panels.size()), [&](std::int64_t i, int) {
      const size_t at = static_cast<size_t>(i);
      winners[at] = WinningExpert(RowsOf(logits), panels[at], tokens[at]);
    });
  }

  void MeasureDivergence(const Tensor& logits, std::span<const RowPair> pairs,
                         std::span<double> bits) override {
    pool_.ForEach(static_cast<std::int64_t>(pairs.size()), [&](std::int64_t i, int) {
      const RowPair& pair = pairs[static_cast<size_t>(i)];
      const LogitRows rows = RowsOf(logits);
      bits[static_cast<size_t>(i)] = Divergence(rows.Row(pair.first), rows.Row(pair.second));
    });
  }

  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override {
    const auto columns = static_cast<size_t>(x.columns);
    for (size_t at = 0; at < out.size(); at += columns) {
      std::copy_n(Row(x, row++), std::min(columns, out.size() - at), out.data() + at);
    }
  }

 private:
  static ProductRows ProductOf(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) {
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

  // Of all matrices that are still there.
  std::vector<std::span<const std::byte>> LoadedBytes() const {
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

  // Two products: A x, scaled, and B times that, which is added to the rows of `out`.
  void AddFactors(const LowRankFactors& factors, const VariantRun& run, const Tensor& x,
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

  void NormHeads(float* values, const float* weight, int heads, int dim,
                 const QkNormWeights& norm) const {
    if (norm.whole) return vector_.rms_norm(values, weight, heads * dim, norm.eps, values);
    for (int head = 0; head < heads; ++head) {
      vector_.rms_norm(values + head * dim, weight, dim, norm.eps, values + head * dim);
    }
  }

  // Turns the pairs (i, i + rotary_dim / 2); values beyond rotary_dim stay.
  KernelOptions options_;
  ThreadPool pool_;
  const CpuPath& path_ = CpuPathOfThisMachine();
  const VectorKernels& vector_ = path_.vector;
  ProductThreads products_{path_, pool_};
  bool has_codes_ = false;  // some weights are multiplied as codes
  std::vector<std::weak_ptr<const PackedMatrix>> loaded_;
  std::vector<float> inverse_frequency_;
  float rope_scale_ = 1.0f;
  AttentionScratch attention_;
  SelectionScratch selection_;
  // Of MatMulChoose.
  std::vector<SamplingRow> part_requests_;
  std::vector<TokenChoice> part_choices_;
};

}  // namespace

std::unique_ptr<Kernels> MakeCpuKernels(const KernelOptions& options) {
  return std::make_unique<CpuKernels>(options);
}

}  // namespace banyan
