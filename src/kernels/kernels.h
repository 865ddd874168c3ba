// The arithmetic of a backend: coarse operations over opaque tensors. Nothing above this class
// touches their bytes. Kernels know no tree, no owner of KV and no model: they see rows, KV spans
// and pages (plan/). Implementations: reference (naive, the specification), cpu, cuda.
//
// Rows are independent: every operation computes row r from row r alone (and, in Attend, from the
// KV the plan shows it), with bits that do not depend on how many rows there are, on threads, or on
// how the plan splits the work.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/types.h"
#include "kernels/experts.h"
#include "kernels/fusion.h"
#include "kernels/low_rank.h"
#include "kernels/random_weights.h"
#include "kernels/sampling.h"
#include "kernels/states.h"
#include "kernels/tensor.h"
#include "plan/attention_plan.h"
#include "plan/batch.h"
#include "plan/cost.h"
#include "plan/joining.h"
#include "tensor/host_tensor.h"

namespace banyan {

// The rows of `w` are those of the gate, then those of the up projection.
struct GatedProduct {
  const Matrix& w;
  const Vector* bias = nullptr;
  Gate gate = Gate::kSilu;
};

// AttentionShape::rope of a layer whose queries and keys are not rotated.
inline constexpr int kNoRope = -1;

// Rotary position embedding, as numbers that every backend takes.
struct RopeTable {
  // Pair i of a head at position p rotates by the angle p * inverse_frequency[i].  [rotary_dim / 2]
  std::vector<float> inverse_frequency;
  float scale = 1.0f;  // of cosine and sine; YaRN and LongRoPE call it attention factor
  // Rotated queries at position p are multiplied by 1 + query_beta * ln(1 + floor(p /
  // query_interval)): an attention temperature that falls with the position.
  float query_beta = 0.0f;
  int query_interval = 0;  // tokens; 0: queries are not multiplied
};

// In float32, the order in which Transformers evaluates it.
inline float QueryFactor(const RopeTable& rope, int position) {
  if (rope.query_interval <= 0) return 1.0f;
  const float step =
      std::floor(static_cast<float>(position) / static_cast<float>(rope.query_interval));
  const auto logarithm = static_cast<float>(std::log(static_cast<double>(1.0f + step)));
  return 1.0f + rope.query_beta * logarithm;
}

enum class Precision {
  kF32,    // float32 activations and KV, weights dequantised
  kMixed,  // 16-bit or int8 KV, compact weights, reduced activations where the backend chooses
};
enum class KvType { kF32, kF16, kBF16, kQ8 };  // kQ8: int8 of Hadamard-rotated heads (hadamard.h)
// How a device backend keeps quantised weights when mixed; the bits of products are the same. Other
// backends choose for themselves.
enum class WeightResidency {
  kAuto,       // converted while that takes at most half of the free memory, else compact
  kConverted,  // to 16 bits at load: many rows are faster
  kCompact,    // quantised, where the type has such a form: less memory, and few rows are faster
};

struct KernelOptions {
  Precision precision = Precision::kF32;
  KvType kv_type = KvType::kF32;
  int threads = 0;    // 0: as many as the process may use
  int ordinal = -1;   // of a GPU; -1: the process's current one
  bool fast = false;  // rows need not be independent, where that saves time
  WeightResidency weights = WeightResidency::kAuto;
  // When mixed: matrices of ForProducts are multiplied in int8 (int8.h), with a scale per output of
  // the weights and one per row of activations.
  bool eight_bit_products = false;
  // Of one model, in this process (shards/sharded_kernels.h).
  int shards = 1;
  bool of_shards = false;             // these kernels are one of them
  std::vector<int> shard_ordinals{};  // [shards] the GPU of each; empty: all on `ordinal`
};

// Key heads of a layer, and values of each.
struct KvHeads {
  int heads = 0, dim = 0;
  bool operator==(const KvHeads&) const = default;
};

// Shape of the KV memory. Every page holds kPageTokens tokens of the K and V of all its layers.
struct KvShape {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
  // [layers] of memory whose layers differ. Empty: all are as above.
  std::vector<KvHeads> by_layer{};

  KvHeads Of(int layer) const {
    return by_layer.empty() ? KvHeads{kv_heads, head_dim} : by_layer[static_cast<size_t>(layer)];
  }
};

struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;      // tokens a row sees back from itself, itself included; 0 = all
  float scale = 0.0f;  // of the scores: 1/sqrt(head_dim), where the model does not say otherwise
  int rope = 0;        // index in SetRopes of the table that rotates queries and keys, or kNoRope
  // The layer has keys and values of its own. Otherwise its rows are queries alone, and they attend
  // to what another layer stored.
  bool stores = true;
  // [heads] Attention sinks: scores that take part in the softmax and have no value. One more term
  // in the merge, after all others. Null: none.
  const Vector* sinks = nullptr;
};

// Optional RMS norm of Q and K before the rotation.
struct QkNormWeights {
  const Vector* query = nullptr;  // [head_dim], or [heads * head_dim] when `whole`
  const Vector* key = nullptr;    // [head_dim], or [kv_heads * head_dim] when `whole`
  const Vector* value = nullptr;  // [head_dim] of V
  bool whole = false;             // one norm over all heads' values instead of one per head
  float eps = 0.0f;
};

// Tokens that Choose was asked for and that may still be computed.
class PendingChoices {
 public:
  virtual ~PendingChoices() = default;
  // Waits for the choices. Call it once; the result is valid until this object is destroyed or
  // passed to Choose again. A row without an allowed token has kNoToken.
  virtual const std::vector<TokenChoice>& Take() = 0;
};

// The panels that sampling requests refer to.
struct StepPanels {
  std::span<const PanelRow> panels;
  const PendingChoices* earlier = nullptr;  // whose betas panels may use, taken or not
};

// What the operations of a step work on.
struct RecordedStep {
  const StepInputs* step = nullptr;
  const KvMemory* kv = nullptr;
  const StateMemory* states = nullptr;
};

// Runs the operations of steps; a backend may replay what it recorded in an earlier step.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Runs `operations`, which call the kernels that made this recorder for `steps`, one of each of
  // them, with tensors at fixed addresses. Equal variants and row counts mean the same operations.
  virtual void Run(std::span<const RecordedStep> /*steps*/, int /*variant*/,
                   const std::function<void()>& operations) {
    operations();
  }
  void Run(const StepInputs& step, const KvMemory& kv, int variant,
           const std::function<void()>& operations) {
    const RecordedStep one{&step, &kv, kv.states.get()};
    Run(std::span(&one, 1), variant, operations);
  }
};

enum class Activation {
  kGelu,  // x Φ(x), with the exact normal distribution, not the tanh approximation
  kTanh,
};

// Shapes of activations that are needed at the same time.
struct TensorShape {
  std::int64_t rows = 0, columns = 0;
};
using TensorGroup = std::vector<TensorShape>;

// Columns [from, from + count) of one tensor become [to, to + count) of another.
struct ColumnCopy {
  std::int64_t from = 0, to = 0, count = 0;
};
// A tensor's columns that go to another's; it may belong to other kernels of the backend.
struct ColumnPiece {
  Tensor x;
  ColumnCopy columns;
};

// How to time an operation.
struct TimedRuns {
  int count = 1;
  bool empty_caches = true;  // flush caches before every run
};

struct GatedNorm {
  const Tensor& gates;  // of x's shape
  Gate gate = Gate::kSilu;
  const Vector& weight;
  std::int64_t group = 0;
  float eps = 0.0f;
  bool norm_first = false;
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual std::string name() const = 0;  // "cpu (avx512, 2 threads)"
  // What the bits depend on beside code and options: instruction set, device, libraries.
  virtual std::string arithmetic() const = 0;
  // The number of (attention item, KV head) pairs that keeps all workers busy to the end.
  virtual int attention_tasks() const = 0;
  // Which items of several groups pay off; kernels accept any plan.
  virtual GroupJoining JoiningFor(const AttentionShape& /*shape*/) const { return {}; }
  virtual const KernelOptions& options() const = 0;
  // Operations of these kernels follow in this thread: for processes that have kernels on several
  // GPUs. Throws DeviceError.
  virtual void EnterThread() {}
  // Whether operations return before they are done, so that the host can prepare the next step.
  virtual bool asynchronous() const { return false; }
  // The highest rates this machine reaches, measured now (some tens of milliseconds): large matrix
  // products and reading memory. Zeros for the reference backend.
  virtual MachineRates MeasureRates() = 0;
  // Seconds of each run of `work`, which calls operations of these kernels, by the device clock.
  virtual std::vector<double> TimeRuns(const TimedRuns& runs, const std::function<void()>& work);

  // --- Memory --------------------------------------------------------------------------------
  // Activations of `rows` rows, contents undefined. Throws kLimit when memory runs out.
  virtual Tensor NewTensor(std::int64_t rows, std::int64_t columns) = 0;
  // The same for several groups of activations. Tensors of one group live at the same time, those
  // of different groups never do: groups may share memory.
  virtual std::vector<std::vector<Tensor>> NewTensorGroups(std::span<const TensorGroup> groups);
  // Called before loading with the approximate number of weights.
  virtual void ExpectWeights(std::int64_t /*weights*/) {}
  // A matrix [sum of rows, columns] of the given parts stacked by rows (fused Q, K, V may have
  // different types), in the backend's own layout. If `row_order` is not empty, row i is stacked
  // source row row_order[i]; not all of them need be there. REQUIRES: equal
  // columns.
  virtual std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                                   std::span<const std::int32_t> row_order) = 0;
  // The same for products alone, of which several devices may compute ranges of the outputs: a
  // range of each block of so many rows. Empty: one block.
  virtual std::shared_ptr<const Matrix> LoadDivided(std::span<const HostTensor* const> parts,
                                                    std::span<const std::int32_t> row_order,
                                                    std::span<const std::int64_t> /*blocks*/) {
    return LoadMatrix(parts, row_order);
  }
  // Where one device has all of it, as LoadMatrix: an embedding, whose rows several may divide.
  virtual std::shared_ptr<const Matrix> LoadTable(std::span<const HostTensor* const> parts) {
    return LoadMatrix(parts, {});
  }
  // Made in backend memory: the same bf16 values on every backend (random_weights.h).
  virtual std::shared_ptr<const Matrix> RandomMatrix(const RandomWeights& weights);
  // The matrix in the form that the options want for products, of experts to be gathered too; by
  // default itself. Do not pass the embedding.
  virtual std::shared_ptr<const Matrix> ForProducts(std::shared_ptr<const Matrix> matrix) {
    return matrix;
  }
  virtual std::shared_ptr<const Vector> LoadVector(std::span<const float> values) = 0;
  // Throws kLimit when memory runs out. The default makes a FactorTable.
  virtual std::shared_ptr<const LowRankTable> LoadLowRank(const LowRankSource& source);
  // Experts of one shape, for MixExperts. REQUIRES: at least one, loaded by this backend.
  virtual std::shared_ptr<const ExpertTable> GatherExperts(std::vector<ExpertWeights> experts,
                                                           ExpertNumbers numbers);
  virtual std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) = 0;
  // Runs in the order of operations, like all that follows. REQUIRES: no page is written twice, and
  // no page that is read is written.
  virtual void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) = 0;
  // Pages as bytes in the form that all backends share (page_form.h), with elements of `page_type`:
  // [layers, pages, kv_heads, head]. In the order of operations; ReadPages waits for the operations
  // before it.
  virtual KvType page_type() const { return options().kv_type; }
  virtual void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                         std::span<std::byte> bytes) = 0;
  virtual void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                          KvMemory& kv) = 0;
  // Memory for states of `layers` layers; their values are undefined. Throws kLimit when memory
  // runs out. The default keeps them on the host.
  virtual std::shared_ptr<StateMemory> NewStateMemory(const StateShape& shape, int layers,
                                                      int slots);
  // In the order of operations. REQUIRES: as CopyPages.
  virtual void CopyStates(std::span<const StateCopy> copies, StateMemory& states);
  // Whether states can be read and written, for a KV store. The bytes are those of HostStates: a
  // slot of all layers. In the order of operations.
  virtual bool moves_states() const { return false; }
  virtual void ReadState(StateMemory& states, std::int32_t slot, std::span<std::byte> bytes);
  virtual void WriteState(std::span<const std::byte> bytes, std::int32_t slot, StateMemory& states);
  // Bytes that can still be allocated on the device; nullopt where memory is the host's.
  virtual std::optional<std::int64_t> FreeDeviceMemory() const { return std::nullopt; }
  // Bytes of one page over all layers, for budgets.
  virtual std::int64_t KvPageBytes(const KvShape& shape) const = 0;
  // The tables that rotate queries and keys in every later step, indexed by AttentionShape::rope.
  virtual void SetRopes(std::span<const RopeTable> ropes) = 0;
  // Puts the step's index arrays, cosines and sines into backend memory. `earlier` are the choices
  // whose tokens rows may feed (ChoiceToken), taken or not; null when no row does. `step` is null
  // or holds an earlier step that is no longer used, whose memory is reused.
  virtual void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
                      std::unique_ptr<StepInputs>& step) = 0;
  std::unique_ptr<StepInputs> Upload(const Batch& batch, const AttentionPlan& plan,
                                     const PendingChoices* earlier = nullptr) {
    std::unique_ptr<StepInputs> step;
    Upload(batch, plan, earlier, step);
    return step;
  }

  // For the steps of one forward pass. These kernels must outlive it.
  std::unique_ptr<Recorder> NewRecorder() {
    Kernels* const alone = this;
    return NewRecorder(std::span(&alone, 1));
  }
  // The same of several kernels of this backend that compute one step together, these first.
  virtual std::unique_ptr<Recorder> NewRecorder(std::span<Kernels* const> /*together*/) {
    return std::make_unique<Recorder>();
  }

  // --- Of one model in several shards (shards/sharded_kernels.h) -------------------------------
  // What this class needs to know of links between devices: a shard reads what others computed.
  // Called once, before tensors of `other` are read. Throws kUnsupported where they cannot be.
  virtual void Reach(const Kernels& /*other*/) {}
  // Operations from here on come after those of `other` before its last Post. Nothing to do where
  // operations wait.
  virtual void Post() {}
  virtual void Follow(const Kernels& /*other*/) {}
  // What each shard does now, for one who waits in vain: called from another thread.
  virtual std::string State() const { return {}; }
  // Embed of the rows whose tokens are in [first, first + table.rows), by these rows of the whole
  // table; other rows of `out` stay. The table may belong to other kernels of this backend.
  virtual void EmbedRange(const StepInputs& step, const Matrix& table, std::int64_t first,
                          Tensor& out);
  // MixExperts of some rows in two parts, one after the other; experts have a range of their inner
  // values and of their outputs. First the inner values of that range, then, from those of all
  // shards, the outputs. The call's scratch has as many columns as the range.
  //                                 inner [slots, range], all [slots, inner], out [rows, range]
  virtual void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows, Tensor& inner);
  virtual void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& all,
                             Tensor& out);
  // All of out's columns from pieces, which have as many rows and come in one form. By default one
  // after the other by CopyColumns.
  virtual void Gather(std::span<const ColumnPiece> pieces, Tensor& out);
  // RmsNorm of the columns [from, from + weight.size) of x in place, as RotateAndStore has it over
  // all heads. `scratch` has so many columns and is left undefined.
  virtual void NormColumns(std::int64_t from, const Vector& weight, float eps, Tensor& scratch,
                           Tensor& x);

  // --- The network ---------------------------------------------------------------------------
  // out[r] = table[token of row r].                                     out [rows, columns]
  virtual void Embed(const StepInputs& step, const Matrix& table, Tensor& out) = 0;
  // out[r] = x[r] / sqrt(mean(x[r]²) + eps) * weight.                   x, out [rows, columns]
  virtual void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) = 0;
  // out[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + eps) * weight + bias. x and out may be one
  // tensor.                                                             x, out [rows, columns]
  virtual void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                         Tensor& out) = 0;
  // RmsNorm of each group of so many columns by itself; `weight` is of all columns, or of one group
  // and the same for all.
  virtual void RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                             Tensor& out) = 0;
  // x[r] = 0.
  virtual void Clear(Tensor& x) = 0;
  // x[r] += delta[r].
  virtual void Add(const Tensor& delta, Tensor& x) = 0;
  // x[r] *= factor.
  virtual void Scale(float factor, Tensor& x) = 0;
  // out[r][n] = sum_k x[r][k] w[n][k] (+ bias[n]).                      x [rows, k], out [rows, n]
  virtual void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) = 0;
  // x[r] += W a[r] (+ bias), with the bits of MatMul into `scratch` and Add. `scratch` has x's
  // shape and is left undefined.                                        a [rows, k], x [rows, n]
  virtual void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor& scratch,
                         Tensor& x);
  // out = Glu(W x (+ bias)). `scratch` [rows, 2n] is left undefined; a backend may keep fewer bits
  // of the product there when mixed.                                    x [rows, k], out [rows, n]
  virtual void MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                         Tensor& out);
  // out[r] += the low-rank product of row r's variant with x[r]. Rows of variant 0, and of variants
  // without a part, stay as they are. The order of a row's sums depends on its variant alone. x
  // [rows, k], out [rows, n]
  virtual void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) = 0;
  // out = Glu(W x (+ bias) + low-rank products of the rows' variants). Rows without any have the
  // bits of MatMulGlu. `scratch` as there.                                                 x [rows,
  // k], out [rows, n]
  virtual void AdaptedGlu(const Tensor& x, const GatedProduct& product, const LowRankCall& more,
                          Tensor& scratch, Tensor& out);
  // Whether AdaptedGlu computes rows without an adapter by MatMulGlu, as their bits ask for, and
  // only the others as MatMul, AddLowRank and AdaptedRowsGlu.
  virtual bool ComputesAdaptedApart(const GatedProduct& /*product*/,
                                    const LowRankCall& /*more*/) const {
    return false;
  }
  // Glu of the rows of `more` that have an adapter; other rows of `out` stay.
  virtual void AdaptedRowsGlu(Gate gate, const LowRankCall& more, const Tensor& x, Tensor& out);
  // out[r] = sum of share * expert(x[r]) over the experts that row r's scores choose (experts.h).
  // x and out may be one tensor.                                        x, out [rows, hidden]
  virtual void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) = 0;
  // Norms (optional) and rotates Q and K, then stores K and V in the rows' slots.
  // qkv [rows, (heads + 2 kv_heads) * head_dim]: all query heads, all key heads, all value heads.
  // Afterwards only Attend may read it: it is rotated in place, or unchanged where the backend
  // keeps rotated queries elsewhere. `layer` counts the layers of `kv`.
  virtual void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                              const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) = 0;
  // out[r] = attention of row r over what the plan shows it. out [rows, heads * head_dim]
  // REQUIRES: qkv was passed to the last RotateAndStore, with the same shape.
  virtual void Attend(const StepInputs& step, int layer, const AttentionShape& shape,
                      const Tensor& qkv, const KvMemory& kv, Tensor& out) = 0;
  // out[r][i] = gate(x[r][i]) * x[r][n + i].                            x [rows, 2n], out [rows, n]
  virtual void Glu(Gate gate, const Tensor& x, Tensor& out) = 0;
  // out[r][i] = gate(gates[r][i]) * values[r][first + i].
  //                                       gates, out [rows, n], values [rows, at least first + n]
  virtual void GateColumns(Gate gate, const Tensor& gates, const Tensor& values, std::int64_t first,
                           Tensor& out) = 0;
  // RmsNormGroups and GateColumns of all of x, in place and in the order that the call says. A
  // backend may keep fewer bits of the result when mixed: products read it.
  virtual void GateAndNorm(const GatedNorm& call, Tensor& x);
  // x[r][i] *= gate(gates[r][0]).                                       gates [rows, 1]
  virtual void GateRows(Gate gate, const Tensor& gates, Tensor& x) = 0;
  // The convolution and the matrices of a layer that keeps a state (states.h); runs as
  // Batch::states says. Convolve changes the state's window, Scan its matrices.
  //                       out [rows, channels] of Convolve, [rows, heads * value_dim] of Scan
  virtual void Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                        Tensor& out) = 0;
  virtual void Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
                    Tensor& out) = 0;
  // x may belong to other kernels of this backend, and have other columns than out. Where not
  // asynchronous().                                                     as many rows in both
  virtual void CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out);
  // x[r][i] = f(x[r][i]).
  virtual void Activate(Activation f, Tensor& x) = 0;
  // out[i] = x[batch.logit_rows[i]].
  virtual void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) = 0;

  // --- From logits to tokens -----------------------------------------------------------------
  // Starts one choice per request, from the row of `logits` or the panel that it names. The memory
  // that requests point at is not needed afterwards. `choices` is null or holds choices of an
  // earlier call that are no longer used, whose memory is reused.
  virtual void Choose(const Tensor& logits, std::span<const SamplingRow> requests,
                      const StepPanels& panels, std::unique_ptr<PendingChoices>& choices) = 0;
  std::unique_ptr<PendingChoices> Choose(const Tensor& logits,
                                         std::span<const SamplingRow> requests,
                                         const StepPanels& panels = {}) {
    std::unique_ptr<PendingChoices> choices;
    Choose(logits, requests, panels, choices);
    return choices;
  }
  // One choice per request from the rows of W x, with the bits of MatMul into `logits` and Choose.
  // `logits` [rows, n] is left undefined: a backend may keep only some of its rows at a time.
  virtual void MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                            std::span<const SamplingRow> requests,
                            std::unique_ptr<PendingChoices>& choices);
  // Choose without panels; waits for the result.
  virtual void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                            std::span<TokenChoice> choices) = 0;
  // Copies values to the host as float32: as many rows from `row` on as fit `out`.
  virtual void Download(const Tensor& x, std::int64_t row, std::span<float> out) = 0;
};

// The backend for `device`: "cpu", "reference" or "cuda". Throws kUsage for another name, and
// kUnsupported where this build or machine has no such device.
std::unique_ptr<Kernels> MakeKernels(const std::string& device, const KernelOptions& options);
// Bytes that can be allocated on a device now, before kernels are made for it; nullopt where memory
// is the host's.
std::optional<std::int64_t> FreeMemoryOf(const std::string& device, int ordinal);
// GPUs that this process sees, at least 1. Throws kUnsupported where there is none.
int CountGpus();

}  // namespace banyan
