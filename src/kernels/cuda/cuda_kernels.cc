#include "kernels/cuda/cuda_kernels.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/cache_directory.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/choices.h"
#include "kernels/cuda/compact_products.h"
#include "kernels/cuda/device_matrix.h"
#include "kernels/cuda/device_rates.h"
#include "kernels/cuda/device_step.h"
#include "kernels/cuda/kv_pages.h"
#include "kernels/cuda/panels.h"
#include "kernels/cuda/partial_memory.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/random_matrix.h"
#include "kernels/cuda/rotate_store.h"
#include "kernels/cuda/row_kernels.h"
#include "kernels/cuda/selection.h"
#include "kernels/cuda/step_graphs.h"
#include "kernels/cuda/tensor_memory.h"
#include "kernels/cuda/timed_runs.h"

namespace banyan {
namespace {

using cuda::Check;
using cuda::DeviceMatrix;
using cuda::DeviceMemory;
using cuda::DeviceStep;
using cuda::KvPages;
using cuda::ProductForm;
using cuda::RowRange;
using cuda::Stride;
using cuda::Wide;
using cuda::WideForWriting;

class DeviceVector : public Vector {
 public:
  DeviceMemory memory;
};
const float* Values(const Vector* vector) {
  if (vector == nullptr) return nullptr;
  return static_cast<const DeviceVector*>(vector)->memory.As<float>();
}
const DeviceMatrix& OnDevice(const Matrix& matrix) {
  return static_cast<const DeviceMatrix&>(matrix);
}
const DeviceStep& OnDevice(const StepInputs& step) { return static_cast<const DeviceStep&>(step); }

RowRange RangeOf(const Tensor& x) { return {x.rows, x.columns, Stride(x.columns)}; }

// ~/.cache/banyan/cuda/NVIDIA-H200-sm-90.txt
std::filesystem::path FileOfDecisions(const std::string& device) {
  const std::filesystem::path cache = CacheDirectory();
  if (cache.empty()) return {};
  std::string name;
  for (const char c : device) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || !name.ends_with('-')) name += plain ? c : '-';
  }
  return cache / "cuda" / (name + ".txt");
}

class CudaKernels : public Kernels {
 public:
  explicit CudaKernels(const KernelOptions& options)
      : options_(options),
        device_(std::make_shared<cuda::Device>()),
        stream_(device_->stream),
        pool_(options.threads),
        staging_(device_),
        steps_(device_, staging_),
        next_unit_(device_, 2 * sizeof(std::int32_t), "counters of attention"),
        loader_(device_, pool_, staging_),
        compact_weights_(options.weights == WeightResidency::kCompact),
        products_(device_, {options.fast, FileOfDecisions(device_->name)}),
        compact_products_(device_, products_),
        chooser_(device_),
        panels_(device_),
        partials_(device_) {
    next_unit_.Zero();
    if (!mixed() && options.kv_type != KvType::kF32) {
      Throw(ErrorKind::kUnsupported, "device cuda: precision f32 keeps KV in f32 only");
    }
  }

  std::string name() const override { return fmt::format("cuda ({})", device_->name); }
  int attention_tasks() const override { return device_->multiprocessors; }
  GroupJoining JoiningFor(const AttentionShape& shape) const override {
    if (FormOf(shape) != cuda::UnitForm::kWideAndNarrow) return {};
    const int ratio = shape.heads / shape.kv_heads;
    return {cuda::kMostNarrowRows / ratio + 1, shape.kv_heads, device_->multiprocessors,
            cuda::kUnitTimes};
  }
  bool asynchronous() const override { return true; }
  const KernelOptions& options() const override { return options_; }
  MachineRates MeasureRates() override {
    return cuda::MeasureDeviceRates(device_, mixed() ? &products_ : nullptr);
  }

  std::vector<double> TimeRuns(const TimedRuns& runs, const std::function<void()>& work) override {
    return cuda::TimeOnDevice(device_, runs, work);
  }

  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override {
    return cuda::NewTensor(device_, rows, columns);
  }

  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override {
    auto form = cuda::WeightForm::kF32;
    if (mixed()) form = compact_weights_ ? cuda::WeightForm::kCompact : cuda::WeightForm::kBF16;
    auto matrix = loader_.Load({parts, row_order}, form);
    if (matrix->form == cuda::WeightForm::kCompact) compact_products_.Reserve(*matrix);
    return matrix;
  }

  void ExpectWeights(std::int64_t weights) override {
    if (options_.weights != WeightResidency::kAuto) return;
    compact_weights_ = 2 * weights > device_->FreeBytes() / 2;
  }

  std::shared_ptr<const Matrix> RandomMatrix(const RandomWeights& weights) override {
    const auto form = mixed() ? cuda::WeightForm::kBF16 : cuda::WeightForm::kF32;
    return cuda::MakeRandomMatrix(device_, weights, form);
  }

  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override {
    auto vector = std::make_shared<DeviceVector>();
    vector->size = static_cast<std::int64_t>(values.size());
    const auto bytes = static_cast<std::int64_t>(values.size_bytes());
    // Padded like a row, so that kernels can read it in whole vectors.
    vector->memory = DeviceMemory(device_, Stride(vector->size) * 4, "parameters");
    vector->memory.Zero();
    std::memcpy(staging_.Reserve(bytes), values.data(), values.size_bytes());
    staging_.Send(vector->memory.As<void>(), bytes);
    return vector;
  }

  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override {
    return std::make_shared<KvPages>(device_, shape, pages, options_.kv_type);
  }
  std::optional<std::int64_t> FreeDeviceMemory() const override { return device_->FreeBytes(); }
  std::int64_t KvPageBytes(const KvShape& shape) const override {
    return std::int64_t{cuda::LayoutOf(shape, options_.kv_type).block_bytes} * shape.kv_heads *
           shape.layers;
  }

  void SetRope(std::span<const float> inverse_frequency, float scale) override {
    const auto bytes = static_cast<std::int64_t>(inverse_frequency.size_bytes());
    inverse_frequency_ = DeviceMemory(device_, bytes, "rotation frequencies");
    inverse_frequency_.CopyFromHost(inverse_frequency.data(), bytes);
    pairs_ = static_cast<int>(inverse_frequency.size());
    rope_scale_ = scale;
  }

  std::unique_ptr<StepInputs> Upload(const Batch& batch, const AttentionPlan& plan,
                                     const PendingChoices* earlier) override {
    auto step = steps_.Send(batch, plan, pairs_, last_split_);
    if (std::any_of(batch.tokens.begin(), batch.tokens.end(), IsChoice)) {
      BANYAN_CHECK(earlier != nullptr);
      cuda::FeedChosen(stream_, static_cast<const cuda::DeviceChoices*>(earlier)->results(),
                       step->rows, step->tokens);
    }
    const cuda::RopeAngles angles{step->positions, inverse_frequency_.As<float>(), step->rows,
                                  pairs_, rope_scale_};
    cuda::FillRopeTable(stream_, angles, step->cosine, step->sine);
    return step;
  }
  std::unique_ptr<Recorder> NewRecorder() override {
    return std::make_unique<cuda::StepGraphs>(device_, partials_);
  }

  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    const DeviceMatrix& matrix = OnDevice(table);
    BANYAN_CHECK(matrix.columns == out.columns && out.rows == step.rows);
    float* target = WideForWriting(out);
    const std::int32_t* tokens = OnDevice(step).tokens;
    if (matrix.form == cuda::WeightForm::kF32) {
      cuda::EmbedRows(stream_, tokens, matrix.memory.As<float>(), RangeOf(out), target);
    } else if (matrix.form == cuda::WeightForm::kCompact) {
      for (const cuda::CompactRows& rows : matrix.compact) {
        cuda::EmbedCompactRows(stream_, tokens, rows, RangeOf(out), target);
      }
    } else {
      cuda::EmbedRows(stream_, tokens, matrix.memory.As<__nv_bfloat16>(), RangeOf(out), target);
    }
  }

  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override {
    const float* source = Wide(x);
    cuda::RmsNormRows(stream_, source, Values(&weight), eps, RangeOf(x), OutputOf(out));
  }

  void Clear(Tensor& x) override {
    const auto elements = static_cast<size_t>(x.rows * Stride(x.columns));
    if (mixed()) {  // for a product to read
      Check(cudaMemsetAsync(cuda::NarrowForWriting(x), 0, elements * 2, stream_), "clear");
    } else {
      Check(cudaMemsetAsync(WideForWriting(x), 0, elements * 4, stream_), "clear");
    }
  }

  void Add(const Tensor& delta, Tensor& x) override {
    cuda::AddRows(stream_, Wide(delta), nullptr, RangeOf(x), Wide(x));
  }

  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override {
    const bool with_bias = bias != nullptr && mixed();
    Multiply(x, w,
             {with_bias ? ProductForm::kBias : ProductForm::kWide, WideForWriting(out),
              Values(with_bias ? bias : nullptr)},
             out);
    if (bias != nullptr && !with_bias) {
      cuda::AddRows(stream_, nullptr, Values(bias), RangeOf(out), Wide(out));
    }
  }

  void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor& scratch,
                 Tensor& x) override {
    if (bias != nullptr) return Kernels::MatMulAdd(a, w, bias, scratch, x);
    Multiply(a, w, {ProductForm::kAdd, Wide(x), nullptr}, x);
  }

  void MatMulSwiGlu(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& scratch,
                    Tensor& out) override {
    if (!mixed() || bias != nullptr) return Kernels::MatMulSwiGlu(x, w, bias, scratch, out);
    Multiply(x, w, {ProductForm::kNarrow, cuda::NarrowForWriting(scratch), nullptr}, scratch);
    cuda::SwiGluRows(stream_, cuda::Narrow(scratch), Stride(scratch.columns), RangeOf(out),
                     cuda::NarrowForWriting(out));
  }

  void PrepareProduct(ProductKind kind, const Matrix& w, const Vector* bias,
                      std::int64_t rows) override {
    if (!mixed() || rows == 0) return;
    ProductForm form = ProductForm::kWide;
    if (kind == ProductKind::kMatMulAdd) form = ProductForm::kAdd;
    if (kind == ProductKind::kMatMulSwiGlu) form = ProductForm::kNarrow;
    if (bias != nullptr) form = ProductForm::kBias;
    const DeviceMatrix& matrix = OnDevice(w);
    if (matrix.form == cuda::WeightForm::kCompact) {
      compact_products_.Prepare(matrix, rows, form);
    } else {
      products_.Prepare(matrix, rows, form);
    }
  }

  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override {
    const DeviceStep& on_device = OnDevice(step);
    BANYAN_CHECK(qkv.rows == step.rows && 2 * pairs_ <= shape.head_dim);
    cuda::RotateCall call;
    call.rows = step.rows;
    call.heads = shape.heads;
    call.pairs = pairs_;
    call.cosine = on_device.cosine;
    call.sine = on_device.sine;
    call.slots = on_device.slots;
    call.query_norm = Values(norm.query);
    call.key_norm = Values(norm.key);
    call.whole_norm = norm.whole;
    call.eps = norm.eps;
    call.qkv = Wide(qkv);
    call.stride = Stride(qkv.columns);
    call.kv = static_cast<KvPages&>(kv).Layer(layer);
    call.type = options_.kv_type;
    call.lists = on_device.lists.data();
    call.lists_bytes = static_cast<std::int64_t>(on_device.lists.size());
    AddScaledQueries(shape, call);
    rotated_ = call.qkv;
    cuda::RotateAndStoreRows(stream_, call);
  }

  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override {
    const DeviceStep& on_device = OnDevice(step);
    last_split_ = {shape.heads / shape.kv_heads, shape.kv_heads, FormOf(shape)};
    cuda::AttentionCall call;
    call.units = on_device.UnitsFor(last_split_, staging_);
    call.form = last_split_.form;
    call.next_unit = next_unit_.As<std::int32_t>();
    call.pages = on_device.pages;
    call.positions = on_device.positions;
    call.merge_begin = on_device.merge_begin;
    call.merges = on_device.merges;
    call.entries = on_device.partials;
    call.rows = step.rows;
    call.shape = shape;
    call.query = Wide(qkv);
    call.query_stride = Stride(qkv.columns);
    call.kv = static_cast<const KvPages&>(kv).Layer(layer);
    if (call.form == cuda::UnitForm::kWideAndNarrow) {
      if (rotated_ != call.query) ScaleQueries(shape, step.rows, qkv, call.kv);
      call.scaled_query = partials_.queries();
    }
    call.partials = partials_.Reserve(on_device.partials, shape);
    call.out = OutputOf(out);
    call.out_stride = Stride(out.columns);
    try {
      cuda::AttendUnits(stream_, device_->multiprocessors, options_.kv_type, call);
      cuda::MergePartials(stream_, call);
    } catch (...) {
      // The merge would have: another try must not miss the tasks that were drawn in this one.
      if (device_->recording == nullptr) next_unit_.Zero();
      throw;
    }
  }

  void SwiGlu(const Tensor& x, Tensor& out) override {
    const float* source = Wide(x);
    cuda::SwiGluRows(stream_, source, Stride(x.columns), RangeOf(out), OutputOf(out));
  }

  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override {
    BANYAN_CHECK(out.rows == step.logit_rows && out.columns == x.columns);
    const float* source = Wide(x);
    cuda::GatherRows(stream_, OnDevice(step).logit_index, source, RangeOf(out),
                     WideForWriting(out));
  }

  std::unique_ptr<PendingChoices> Choose(const Tensor& logits,
                                         std::span<const SamplingRow> requests) override {
    return Begin(logits, requests);
  }

  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override {
    std::vector<TokenChoice> made = Begin(logits, requests)->Take();
    std::move(made.begin(), made.end(), choices.begin());
  }

  void ScoreTokens(const Tensor& logits, std::span<const std::int32_t> rows,
                   std::span<const TokenId> tokens, std::span<float> logprobs) override {
    std::vector<SamplingRow> requests(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      BANYAN_CHECK(tokens[i] >= 0);
      requests[i].row = rows[i];
      requests[i].forced = tokens[i];
    }
    const std::vector<TokenChoice> made = Begin(logits, requests)->Take();
    for (size_t i = 0; i < rows.size(); ++i) logprobs[i] = made[i].logprob;
  }

  void FuseLogits(const Tensor& logits, std::span<const PanelRow> panels, Tensor& fused) override {
    BANYAN_CHECK(fused.columns == logits.columns &&
                 fused.rows >= static_cast<std::int64_t>(panels.size()));
    const cuda::DeviceLogits source = LogitsOf(logits);
    panels_.Fuse(source, panels, WideForWriting(fused), Stride(fused.columns));
  }
  void FindWinners(const Tensor& logits, std::span<const PanelRow> panels,
                   std::span<const TokenId> tokens, std::span<std::int32_t> winners) override {
    panels_.FindWinners(LogitsOf(logits), panels, tokens, winners);
  }
  void MeasureDivergence(const Tensor& logits, std::span<const RowPair> pairs,
                         std::span<double> bits) override {
    panels_.MeasureDivergence(LogitsOf(logits), pairs, bits);
  }

  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override {
    BANYAN_CHECK(row >= 0 && row < x.rows && out.size() <= static_cast<size_t>(x.columns));
    Check(cudaMemcpyAsync(out.data(), Wide(x) + row * Stride(x.columns), out.size_bytes(),
                          cudaMemcpyDeviceToHost, stream_),
          "copy to the host");
    device_->Synchronize();
  }

 private:
  bool mixed() const { return options_.precision == Precision::kMixed; }

  // The product alone, left in `target`, which is the memory of `out`. In float32 only kWide and
  // kAdd.
  void Multiply(const Tensor& x, const Matrix& w, const cuda::Products::Target& target,
                const Tensor& out) {
    BANYAN_CHECK(x.columns == w.columns && out.columns == w.rows && x.rows == out.rows);
    if (x.rows == 0) return;
    const DeviceMatrix& matrix = OnDevice(w);
    if (mixed()) {
      const __nv_bfloat16* source = cuda::Narrow(x);
      if (matrix.form == cuda::WeightForm::kCompact) {
        compact_products_.Multiply(source, x.rows, matrix, target);
      } else {
        products_.Multiply(source, x.rows, matrix, target);
      }
    } else {
      const float* source = Wide(x);
      const cuda::ProductShape shape{x.rows, w.rows, matrix.stride, Stride(out.columns)};
      cuda::MultiplyF32(stream_, source, matrix.memory.As<float>(), shape, target.form,
                        static_cast<float*>(target.out));
    }
  }

  // Results that products read are left in bf16 when mixed.
  cuda::RowOutput OutputOf(const Tensor& out) const {
    if (mixed()) return {nullptr, cuda::NarrowForWriting(out)};
    return {WideForWriting(out), nullptr};
  }

  cuda::UnitForm FormOf(const AttentionShape& shape) const {
    return cuda::UnitFormFor(device_->capability_major, options_.kv_type, shape.head_dim);
  }

  // Attention of wide and narrow units reads queries in 16 bits.
  void AddScaledQueries(const AttentionShape& shape, cuda::RotateCall& call) {
    if (FormOf(shape) != cuda::UnitForm::kWideAndNarrow) return;
    call.scaled_query = partials_.ReserveQueries(std::int64_t{call.rows} * shape.heads *
                                                 call.kv.layout.padded_dim * 2);
    call.query_scale = shape.scale * cuda::kLog2E;
  }
  // For queries that are not those of the last RotateAndStore.
  void ScaleQueries(const AttentionShape& shape, int rows, const Tensor& qkv,
                    const cuda::KvView& kv) {
    cuda::RotateCall call;
    call.rows = rows;
    call.heads = shape.heads;
    call.qkv = const_cast<float*>(Wide(qkv));
    call.stride = Stride(qkv.columns);
    call.kv = kv;
    call.type = options_.kv_type;
    AddScaledQueries(shape, call);
    cuda::ScaleQueryRows(stream_, call);
    rotated_ = call.qkv;
  }

  std::unique_ptr<cuda::DeviceChoices> Begin(const Tensor& logits,
                                             std::span<const SamplingRow> requests) {
    for (const SamplingRow& request : requests) {
      BANYAN_CHECK(request.row >= 0 && request.row < logits.rows);
    }
    return chooser_.Begin(LogitsOf(logits), requests);
  }
  static cuda::DeviceLogits LogitsOf(const Tensor& logits) {
    return {Wide(logits), Stride(logits.columns), static_cast<int>(logits.columns)};
  }

  KernelOptions options_;
  std::shared_ptr<const cuda::Device> device_;
  cudaStream_t stream_;
  ThreadPool pool_;  // for loading
  cuda::Staging staging_;
  cuda::StepSender steps_;
  DeviceMemory next_unit_;  // see AttentionCall
  cuda::MatrixLoader loader_;
  bool compact_weights_;  // of types that have a compact form, when mixed
  cuda::Products products_;
  cuda::CompactProducts compact_products_;
  cuda::TokenChooser chooser_;
  cuda::PanelFusion panels_;
  DeviceMemory inverse_frequency_;  // [pairs_]
  int pairs_ = 0;
  float rope_scale_ = 1.0f;
  cuda::UnitSplit last_split_ = {1, 1, cuda::UnitForm::kBlocks};  // of the last Attend
  cuda::PartialMemory partials_;
  const float* rotated_ = nullptr;  // whose queries partials_ has
};

}  // namespace

std::unique_ptr<Kernels> MakeCudaKernels(const KernelOptions& options) {
  return std::make_unique<CudaKernels>(options);
}

}  // namespace banyan
