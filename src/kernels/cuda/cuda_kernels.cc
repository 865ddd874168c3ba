// Kernels on the device: the operations that need nothing but a launch, and who serves the others
// (weight_forms.h, step_attention.h, choices.h, panels.h).
#include "kernels/cuda/cuda_kernels.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/choices/choices.h"
#include "kernels/cuda/choices/panels.h"
#include "kernels/cuda/device/timing.h"
#include "kernels/cuda/experts/expert_mixer.h"
#include "kernels/cuda/pages/kv_pages.h"
#include "kernels/cuda/products/device_rates.h"
#include "kernels/cuda/products/low_rank.h"
#include "kernels/cuda/products/weight_forms.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/states/device_states.h"
#include "kernels/cuda/step/step_attention.h"
#include "kernels/cuda/step/step_graphs.h"

namespace banyan {
namespace {

using cuda::Check;
using cuda::DeviceStep;
using cuda::Float32;
using cuda::Float32ForWriting;
using cuda::KvPages;
using cuda::ProductForm;
using cuda::RowLayout;
using cuda::Stride;
using cuda::Values;

const DeviceStep& OnDevice(const StepInputs& step) { return static_cast<const DeviceStep&>(step); }

// REQUIRES: layers that are alike.
cuda::PageLayers LayersOf(const KvPages& kv) { return {kv.Layer(0), kv.shape().layers, kv.pages}; }

using FloatGlu = void(cudaStream_t, const float*, std::int64_t, RowLayout, cuda::RowOutput);

RowLayout RangeOf(const Tensor& x) { return {x.rows, x.columns, Stride(x.columns)}; }

class CudaKernels : public Kernels {
 public:
  explicit CudaKernels(const KernelOptions& options)
      : options_(options),
        device_(std::make_shared<cuda::Device>(options.ordinal)),
        stream_(device_->stream),
        staging_(device_),
        attention_(device_, options_, staging_),
        weights_(device_, options_, staging_),
        experts_(device_, options_.precision),
        chooser_(device_),
        panels_(device_) {
    if (!mixed() && options.kv_type != KvType::kF32) {
      Throw(ErrorKind::kUnsupported, "device cuda: precision f32 keeps KV in f32 only");
    }
    BANYAN_CHECK(mixed() || !options.eight_bit_products);
  }

  std::string name() const override { return fmt::format("cuda ({})", device_->name); }
  std::string arithmetic() const override {
    int runtime = 0, driver = 0;
    Check(cudaRuntimeGetVersion(&runtime), "version of the runtime");
    Check(cudaDriverGetVersion(&driver), "version of the driver");
    return fmt::format("{}, cuda {}, driver {}", device_->name, runtime, driver);
  }
  int attention_tasks() const override { return device_->multiprocessors; }
  GroupJoining JoiningFor(const AttentionShape& shape) const override {
    return attention_.JoiningFor(shape);
  }
  void EnterThread() override { device_->Enter(); }
  bool asynchronous() const override { return true; }
  const KernelOptions& options() const override { return options_; }
  MachineRates MeasureRates() override {
    return cuda::MeasureDeviceRates(device_, mixed() ? &weights_.products() : nullptr,
                                    options_.eight_bit_products);
  }

  std::vector<double> TimeRuns(const TimedRuns& runs, const std::function<void()>& work) override {
    return cuda::TimeOnDevice(device_, runs, work);
  }

  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override {
    return cuda::NewTensor(device_, rows, columns);
  }

  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override {
    return weights_.Load({parts, row_order});
  }
  void ExpectWeights(std::int64_t weights) override { weights_.Expect(weights); }

  std::shared_ptr<const Matrix> RandomMatrix(const RandomWeights& weights) override {
    return weights_.MakeRandom(weights);
  }

  std::shared_ptr<const Matrix> ForProducts(std::shared_ptr<const Matrix> matrix) override {
    return weights_.ForProducts(std::move(matrix));
  }

  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override {
    return weights_.LoadVector(values);
  }

  std::shared_ptr<const LowRankTable> LoadLowRank(const LowRankSource& source) override {
    return cuda::LoadLowRank(device_, source);
  }

  std::shared_ptr<const ExpertTable> GatherExperts(std::vector<ExpertWeights> experts,
                                                   ExpertNumbers numbers) override {
    return experts_.Gather(std::move(experts), std::move(numbers));
  }

  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override {
    return std::make_shared<KvPages>(device_, shape, pages, options_.kv_type);
  }
  void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) override {
    for (const cuda::PageLayers& layers : static_cast<const KvPages&>(kv).Runs()) {
      cuda::CopyPages(stream_, layers, copies);
    }
  }
  void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                 std::span<std::byte> bytes) override {
    const auto& memory = static_cast<const KvPages&>(kv);
    const auto count = static_cast<std::int64_t>(bytes.size());
    cuda::DeviceMemory form(device_, count, "KV pages on their way");
    form.Zero();
    cuda::PagesToForm(stream_, LayersOf(memory), FormOf(memory.shape(), options_.kv_type), pages,
                      form.As<std::byte>());
    Check(cudaMemcpyAsync(bytes.data(), form.As<void>(), bytes.size(), cudaMemcpyDeviceToHost,
                          stream_),
          "copy of KV pages to the host");
    device_->Synchronize();
  }
  void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                  KvMemory& kv) override {
    const auto& memory = static_cast<const KvPages&>(kv);
    const auto count = static_cast<std::int64_t>(bytes.size());
    const cuda::DeviceMemory form(device_, count, "KV pages on their way");
    std::ranges::copy(bytes, staging_.Reserve(count));
    staging_.Send(form.As<void>(), count);
    cuda::FormToPages(stream_, LayersOf(memory), FormOf(memory.shape(), options_.kv_type), pages,
                      form.As<std::byte>());
  }
  std::shared_ptr<StateMemory> NewStateMemory(const StateShape& shape, int layers,
                                              int slots) override {
    return std::make_shared<cuda::DeviceStates>(device_, shape, layers, slots);
  }
  void CopyStates(std::span<const StateCopy> copies, StateMemory& states) override {
    static_cast<cuda::DeviceStates&>(states).Copy(stream_, copies);
  }
  bool moves_states() const override { return true; }
  void ReadState(StateMemory& states, std::int32_t slot, std::span<std::byte> bytes) override {
    static_cast<const cuda::DeviceStates&>(states).Read(stream_, slot, bytes);
    device_->Synchronize();
  }
  void WriteState(std::span<const std::byte> bytes, std::int32_t slot,
                  StateMemory& states) override {
    static_cast<cuda::DeviceStates&>(states).Write(stream_, bytes, slot);
    device_->Synchronize();  // `bytes` are the caller's again
  }
  std::optional<std::int64_t> FreeDeviceMemory() const override { return device_->FreeBytes(); }
  std::int64_t KvPageBytes(const KvShape& shape) const override {
    return cuda::PageBytesOf(shape, options_.kv_type);
  }

  void SetRopes(std::span<const RopeTable> ropes) override { attention_.SetRopes(ropes); }

  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& step) override {
    step.reset();
    step = attention_.Upload(batch, plan, earlier);
  }
  std::unique_ptr<Recorder> NewRecorder(std::span<Kernels* const> together) override {
    std::vector<cuda::StepGraphs::Source> sources;
    for (Kernels* const one : together) {
      auto& theirs = static_cast<CudaKernels&>(*one);
      sources.push_back(
          {theirs.device_, &theirs.attention_.partials(), &theirs.weights_.products()});
    }
    return std::make_unique<cuda::StepGraphs>(std::move(sources));
  }
  void Reach(const Kernels& other) override { device_->Reach(*DeviceOf(other)); }
  void Post() override { device_->Post(); }
  std::string State() const override { return device_->State(); }
  void Follow(const Kernels& other) override { device_->Follow(*DeviceOf(other)); }
  void Gather(std::span<const ColumnPiece> pieces, Tensor& out) override {
    cuda::GatherColumns(stream_, pieces, out);
  }
  void NormColumns(std::int64_t from, const Vector& weight, float eps, Tensor& /*scratch*/,
                   Tensor& x) override {
    BANYAN_CHECK(from >= 0 && from + weight.size <= x.columns);
    cuda::NormWholeRows(stream_, {x.rows, weight.size, Stride(x.columns), Values(&weight), eps},
                        Float32(x) + from);
  }

  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    EmbedRange(step, table, 0, out);
  }
  void EmbedRange(const StepInputs& step, const Matrix& table, std::int64_t first,
                  Tensor& out) override {
    BANYAN_CHECK(out.rows == step.rows);
    weights_.Embed(OnDevice(step).tokens, table, first, out);
  }

  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override {
    const float* source = Float32(x);
    cuda::RowOutput target = OutputOf(out);
    if (options_.eight_bit_products) target.codes = cuda::CodesForWriting(out);
    cuda::RmsNormRows(stream_, source, Values(&weight), eps, RangeOf(x), target);
  }

  // What comes out is product's input and residual in one, so it stays in float32.
  void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                 Tensor& out) override {
    const float* source = Float32(x);
    cuda::LayerNormRows(stream_, source, Values(&weight), Values(&bias), eps, RangeOf(x),
                        Float32ForWriting(out));
  }

  // Residuals read them, and products what is computed from them: float32.
  void RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                     Tensor& out) override {
    BANYAN_CHECK(group > 0 && x.columns % group == 0 && out.columns == x.columns);
    BANYAN_CHECK(weight.size == x.columns || weight.size == group);
    const float* source = Float32(x);
    float* target = out.memory == x.memory ? Float32(out) : Float32ForWriting(out);
    const cuda::GroupNorm norm{group, Values(&weight), weight.size == group, eps};
    cuda::RmsNormGroupsOfRows(stream_, source, norm, RangeOf(x), target);
  }

  void GateColumns(Gate gate, const Tensor& gates, const Tensor& values, std::int64_t first,
                   Tensor& out) override {
    BANYAN_CHECK(gates.columns == out.columns && first >= 0 &&
                 first + out.columns <= values.columns);
    const float* functions = Float32(gates);
    const bool in_place = out.memory == values.memory;
    if (in_place && cuda::IsBf16(values)) {
      __nv_bfloat16* rows = cuda::Bf16ForUpdate(out);
      return cuda::GateColumnsOfRows(stream_, gate, functions, RangeOf(out), rows + first,
                                     Stride(values.columns), rows);
    }
    const float* source = Float32(values) + first;
    const bool updated = in_place || out.memory == gates.memory;
    const cuda::RowOutput target =
        updated && !mixed() ? cuda::RowOutput{Float32(out), nullptr} : OutputOf(out);
    cuda::GateColumnsOfRows(stream_, gate, functions, RangeOf(out), source, Stride(values.columns),
                            target);
  }

  void GateAndNorm(const GatedNorm& call, Tensor& x) override {
    BANYAN_CHECK(call.group > 0 && x.columns % call.group == 0);
    BANYAN_CHECK(call.gates.columns == x.columns && call.gates.rows == x.rows);
    const cuda::GroupNorm norm{call.group, Values(&call.weight), call.weight.size == call.group,
                               call.eps};
    const cuda::GroupGate gate{call.gate, Float32(call.gates), call.norm_first};
    const float* source = Float32(x);
    const cuda::RowOutput target = mixed() ? OutputOf(x) : cuda::RowOutput{Float32(x), nullptr};
    cuda::GateAndNormRows(stream_, source, norm, gate, RangeOf(x), target);
  }

  void GateRows(Gate gate, const Tensor& gates, Tensor& x) override {
    BANYAN_CHECK(gates.columns == 1 && gates.rows == x.rows);
    cuda::GateWholeRows(stream_, gate, Float32(gates), Stride(gates.columns), RangeOf(x),
                        Float32(x));
  }

  void Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                Tensor& out) override {
    BANYAN_CHECK(out.columns == call.shape.channels && out.rows == step.rows);
    cuda::ConvolutionLaunch launch = cuda::ConvolutionLaunchOf(call);
    launch.states = static_cast<cuda::DeviceStates&>(states).Layer(call.layer);
    // With gates behind it, a product reads it; otherwise the scan.
    launch.out = call.gate_out >= 0 ? OutputOf(out) : cuda::RowOutput{Float32ForWriting(out)};
    launch.out_stride = Stride(out.columns);
    cuda::ConvolveRuns(stream_, OnDevice(step).states(), launch);
  }

  void Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
            Tensor& out) override {
    BANYAN_CHECK(out.columns == call.shape.values() && out.rows == step.rows);
    cuda::ScanLaunch launch = cuda::ScanLaunchOf(call);
    launch.states = static_cast<cuda::DeviceStates&>(states).Layer(call.layer);
    launch.mixed = Float32(call.mixed);
    launch.mixed_stride = Stride(call.mixed.columns);
    launch.inputs = Float32(call.inputs);
    launch.inputs_stride = Stride(call.inputs.columns);
    launch.rates = Values(&call.rates);
    launch.step_bias = Values(&call.step_bias);
    launch.skip = Values(call.skip);
    launch.out = Float32ForWriting(out);
    launch.out_stride = Stride(out.columns);
    cuda::ScanRuns(stream_, OnDevice(step).states(), launch);
  }

  void Clear(Tensor& x) override { cuda::ClearRows(stream_, x, options_.precision); }

  void Add(const Tensor& delta, Tensor& x) override {
    cuda::AddRows(stream_, Float32(delta), nullptr, RangeOf(x), Float32(x));
  }
  void Scale(float factor, Tensor& x) override {
    cuda::ScaleRows(stream_, RangeOf(x), factor, Float32(x));
  }

  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override {
    const bool with_bias = bias != nullptr && mixed();
    weights_.Multiply(x, w,
                      {with_bias ? ProductForm::kBias : ProductForm::kFloat32,
                       Float32ForWriting(out), Values(with_bias ? bias : nullptr)},
                      out);
    if (bias != nullptr && !with_bias) {
      cuda::AddRows(stream_, nullptr, Values(bias), RangeOf(out), Float32(out));
    }
  }

  void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor& scratch,
                 Tensor& x) override {
    if (bias != nullptr) return Kernels::MatMulAdd(a, w, bias, scratch, x);
    weights_.Multiply(a, w, {ProductForm::kAdd, Float32(x), nullptr}, x);
  }

  // Of gates only silu is part of products.
  void MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                 Tensor& out) override {
    if (!mixed() || product.bias != nullptr) return Kernels::MatMulGlu(x, product, scratch, out);
    __nv_bfloat16* inner = cuda::Bf16ForWriting(scratch);
    if (product.gate == Gate::kSilu) {
      weights_.Multiply(x, product.w,
                        {ProductForm::kSwiGlu, cuda::Bf16ForWriting(out), nullptr, inner}, out);
    } else {
      weights_.Multiply(x, product.w, {ProductForm::kBf16, inner}, scratch);
      cuda::GeGluRows(stream_, inner, Stride(scratch.columns), RangeOf(out),
                      cuda::Bf16ForWriting(out));
    }
  }

  // Rows are read as the product reads them.
  void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) override {
    BANYAN_CHECK(x.columns == call.table.columns && out.columns == call.table.rows);
    BANYAN_CHECK(x.rows == out.rows && call.scratch.columns >= call.table.ranks);
    const cuda::LowRankRows rows = LowRankRowsOf(call, x.rows);
    float* inner = Float32ForWriting(call.scratch);
    const std::int64_t inner_stride = Stride(call.scratch.columns);
    if (mixed()) {
      const __nv_bfloat16* source = cuda::Bf16(x);
      cuda::LowRankInner(stream_, rows, source, RangeOf(x), inner, inner_stride);
    } else {
      const float* source = Float32(x);
      cuda::LowRankInner(stream_, rows, source, RangeOf(x), inner, inner_stride);
    }
    cuda::LowRankOuter(stream_, rows, inner, inner_stride, RangeOf(out), Float32(out));
  }

  // Fused products round to 16 bits before the gate, which sums with adapters do not: rows without
  // and with an adapter are computed apart.
  void AdaptedGlu(const Tensor& x, const GatedProduct& product, const LowRankCall& more,
                  Tensor& scratch, Tensor& out) override {
    if (!ComputesAdaptedApart(product, more)) {
      return Kernels::AdaptedGlu(x, product, more, scratch, out);
    }
    MatMulGlu(x, product, scratch, out);
    MatMul(x, product.w, nullptr, scratch);
    AddLowRank(more, x, scratch);
    AdaptedRowsGlu(product.gate, more, scratch, out);
  }
  bool ComputesAdaptedApart(const GatedProduct& product, const LowRankCall& more) const override {
    const bool one_way = !mixed() || product.bias != nullptr;
    return !one_way && !(more.step.all_adapted && more.table.in_all);
  }
  void AdaptedRowsGlu(Gate gate, const LowRankCall& more, const Tensor& x, Tensor& out) override {
    cuda::LowRankGlu(stream_, LowRankRowsOf(more, out.rows), gate, {Float32(x), Stride(x.columns)},
                     RangeOf(out), cuda::Bf16ForWriting(out));
  }

  void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) override {
    experts_.Mix(x, call, out);
  }
  void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows, Tensor& out) override {
    experts_.Inner(x, call, rows, out);
  }
  void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& all,
                     Tensor& out) override {
    experts_.Outputs(call, rows, all, out);
  }

  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override {
    attention_.RotateAndStore(OnDevice(step), shape, norm, qkv,
                              static_cast<KvPages&>(kv).Layer(layer));
  }

  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override {
    attention_.Attend(OnDevice(step), shape, qkv, static_cast<const KvPages&>(kv).Layer(layer),
                      out);
  }

  void Glu(Gate gate, const Tensor& x, Tensor& out) override {
    const float* source = Float32(x);
    const auto glu = gate == Gate::kSilu ? static_cast<FloatGlu*>(cuda::SwiGluRows)
                                         : static_cast<FloatGlu*>(cuda::GeGluRows);
    glu(stream_, source, Stride(x.columns), RangeOf(out), OutputOf(out));
  }

  void Activate(Activation f, Tensor& x) override {
    if (f == Activation::kGelu) return cuda::GeluRows(stream_, RangeOf(x), Float32(x));
    cuda::TanhRows(stream_, RangeOf(x), Float32(x));
  }

  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override {
    BANYAN_CHECK(out.rows == step.logit_rows && out.columns == x.columns);
    const std::int32_t* index = OnDevice(step).logit_index;
    if (cuda::IsBf16(x)) {
      const __nv_bfloat16* source = cuda::Bf16(x);
      cuda::GatherRows(stream_, index, source, RangeOf(out), cuda::Bf16ForWriting(out));
    } else {
      const float* source = Float32(x);
      cuda::GatherRows(stream_, index, source, RangeOf(out), Float32ForWriting(out));
    }
  }

  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& step,
              std::unique_ptr<PendingChoices>& choices) override {
    choices.reset();  // gives its buffers back
    if (step.panels.empty()) {
      choices = Begin(logits, requests);
      return;
    }
    for (const SamplingRow& request : requests) {
      BANYAN_CHECK(request.panel >= 0 ? request.panel < static_cast<int>(step.panels.size())
                                      : request.row >= 0 && request.row < logits.rows);
    }
    choices = chooser_.Begin(LogitsOf(logits), requests, step, panels_);
  }

  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override {
    std::vector<TokenChoice> made = Begin(logits, requests)->Take();
    std::move(made.begin(), made.end(), choices.begin());
  }

  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override {
    cuda::DownloadRows(*device_, x, row, out);
  }

 private:
  static const cuda::Device* DeviceOf(const Kernels& kernels) {
    return static_cast<const CudaKernels&>(kernels).device_.get();
  }
  bool mixed() const { return options_.precision == Precision::kMixed; }

  static cuda::LowRankRows LowRankRowsOf(const LowRankCall& call, std::int64_t rows) {
    const DeviceStep& step = OnDevice(call.step);
    const bool all = call.rows == StepRows::kAll;
    BANYAN_CHECK(step.adapted && rows == (all ? step.rows : step.logit_rows));
    return {static_cast<const cuda::DeviceLowRank&>(call.table).view(),
            all ? step.variants : step.logit_variants, call.table.ranks};
  }

  // Of a result that products read.
  cuda::RowOutput OutputOf(const Tensor& out) const {
    return cuda::OutputForProducts(out, options_.precision);
  }

  std::unique_ptr<cuda::DeviceChoices> Begin(const Tensor& logits,
                                             std::span<const SamplingRow> requests) {
    for (const SamplingRow& request : requests) {
      BANYAN_CHECK(request.row >= 0 && request.row < logits.rows);
    }
    return chooser_.Begin(LogitsOf(logits), requests);
  }
  static cuda::DeviceLogits LogitsOf(const Tensor& logits) {
    return {Float32(logits), Stride(logits.columns), static_cast<int>(logits.columns)};
  }

  KernelOptions options_;
  std::shared_ptr<const cuda::Device> device_;
  cudaStream_t stream_;
  cuda::Staging staging_;
  cuda::StepAttention attention_;
  cuda::WeightForms weights_;
  cuda::ExpertMixer experts_;
  cuda::TokenChooser chooser_;
  cuda::PanelFusion panels_;
};

}  // namespace

std::unique_ptr<Kernels> MakeCudaKernels(const KernelOptions& options) {
  return std::make_unique<CudaKernels>(options);
}

std::int64_t FreeCudaMemory(int ordinal) { return cuda::Device(ordinal).FreeBytes(); }

int CountCudaDevices() { return cuda::CountDevices(); }

}  // namespace banyan
