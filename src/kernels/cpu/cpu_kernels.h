// The cpu backend: SIMD inner loops chosen at start (cpu_path.h), threads over outputs, rows and
// attention items, never over the terms of a sum.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_path.h"
#include "kernels/cpu/expert_mixer.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/state_layers.h"
#include "kernels/cpu/token_chooser.h"
#include "kernels/kernels.h"
#include "kernels/tensor.h"

namespace banyan {

// What lies behind Tensor and Vector.
// Rows are padded to whole panels, so that a product may write its last panel in full.
inline std::int64_t Stride(std::int64_t columns) { return (columns + 15) / 16 * 16; }
inline float* Data(const Tensor& tensor) { return static_cast<float*>(tensor.memory.get()); }
inline float* Row(const Tensor& tensor, std::int64_t row) {
  return Data(tensor) + row * Stride(tensor.columns);
}

class FloatVector : public Vector {
 public:
  std::vector<float> values;
};
inline const float* Values(const Vector& vector) {
  return static_cast<const FloatVector&>(vector).values.data();
}

class CpuKernels : public Kernels {
 public:
  explicit CpuKernels(const KernelOptions& options) : options_(options), pool_(options.threads) {}

  std::string name() const override;
  std::string arithmetic() const override { return "cpu"; }  // of all paths (cpu_path.h)
  int attention_tasks() const override { return 4 * pool_.size(); }
  const KernelOptions& options() const override { return options_; }
  bool moves_states() const override { return true; }

  MachineRates MeasureRates() override;
  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override;
  std::vector<std::vector<Tensor>> NewTensorGroups(std::span<const TensorGroup> groups) override;

  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override;
  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override;

  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override;
  void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) override;
  void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                 std::span<std::byte> bytes) override;
  void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                  KvMemory& kv) override;
  std::int64_t KvPageBytes(const KvShape& shape) const override;

  void SetRopes(std::span<const RopeTable> ropes) override;
  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& inputs) override;

  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    EmbedRange(step, table, 0, out);
  }
  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override;
  void RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                     Tensor& out) override;
  void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                 Tensor& out) override;
  void Clear(Tensor& x) override;
  void Add(const Tensor& delta, Tensor& x) override;
  void Scale(float factor, Tensor& x) override;

  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override;
  void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor&, Tensor& x) override;
  void MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                 Tensor& out) override;
  void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) override;
  void EmbedRange(const StepInputs& step, const Matrix& table, std::int64_t first,
                  Tensor& out) override;
  void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows,
                   Tensor& inner) override {
    experts_.Inner(x, call, rows, inner);
  }
  void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& all,
                     Tensor& out) override {
    experts_.Outputs(call, rows, all, out);
  }
  void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) override {
    experts_.Mix(x, call, out);
  }

  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override;
  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override;
  void Glu(Gate gate, const Tensor& x, Tensor& out) override;
  void GateColumns(Gate gate, const Tensor& gates, const Tensor& values, std::int64_t first,
                   Tensor& out) override;
  void GateRows(Gate gate, const Tensor& gates, Tensor& x) override;
  void Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                Tensor& out) override;
  void Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
            Tensor& out) override;
  void CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out) override;
  void Activate(Activation f, Tensor& x) override;

  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override;
  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override {
    chooser_.Choose(RowsOf(logits), requests, panels, choices);
  }
  void MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                    std::span<const SamplingRow> requests,
                    std::unique_ptr<PendingChoices>& pending) override;
  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override {
    chooser_.SelectTokens(RowsOf(logits), requests, choices);
  }
  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override;

 private:
  static LogitRows RowsOf(const Tensor& logits) {
    return {Row(logits, 0), Stride(logits.columns), logits.columns};
  }
  static ProductRows ProductOf(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out);
  // The memory of all matrices that still exist.
  std::vector<std::span<const std::byte>> LoadedBytes() const;
  // Adds B (scale * A x) to the rows of `out`.
  void AddFactors(const LowRankFactors& factors, const VariantRun& run, const Tensor& x,
                  const Tensor& inner, Tensor& out);
  // The loop of a gated linear unit.
  GluLoop LoopOf(Gate gate) const {
    if (gate == Gate::kLogistic) return vector_.logistic;
    return gate == Gate::kSilu ? vector_.swiglu : vector_.geglu;
  }
  void NormHeads(float* values, const float* weight, int heads, int dim,
                 const QkNormWeights& norm) const;

  KernelOptions options_;
  ThreadPool pool_;
  const CpuPath& path_ = CpuPathOfThisMachine();
  const VectorKernels& vector_ = path_.vector;
  ProductThreads products_{path_, pool_};
  bool quantized_ = false;  // some weights are multiplied in int8
  std::vector<std::weak_ptr<const PackedMatrix>> loaded_;
  std::vector<RopeTable> ropes_;
  AttentionScratch attention_;
  StateLayers states_{vector_, pool_};
  ExpertMixer experts_{products_};
  TokenChooser chooser_{vector_, pool_};
  // Of MatMulChoose.
  std::vector<SamplingRow> part_requests_;
  std::vector<TokenChoice> part_choices_;
};

// Throws kUnsupported for options that this backend does not have.
std::unique_ptr<Kernels> MakeCpuKernels(const KernelOptions& options);

}  // namespace banyan
