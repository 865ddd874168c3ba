// The arithmetic of a backend: about twenty coarse operations over opaque tensors, and nothing
// above this class touches their bytes. Kernels know no tree, no owner of KV and no model: they see
// rows, KV spans and pages (plan/). Implementations: reference (naive, the specification), cpu,
// cuda.
//
// Rows are independent: every operation computes row r from row r alone (and, in Attend, from the
// KV the plan shows it), with bits that do not depend on how many rows there are, on threads, or on
// how the plan splits the work.
#pragma once

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
#include "kernels/gate.h"
#include "kernels/low_rank.h"
#include "kernels/random_weights.h"
#include "kernels/rope_table.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"
#include "plan/attention_plan.h"
#include "plan/batch.h"
#include "plan/cost.h"
#include "plan/joining.h"
#include "tensor/host_tensor.h"

namespace banyan {

enum class Precision {
  kF32,    // float32 activations and KV, weights dequantised
  kMixed,  // 16-bit (or 8-bit) KV, weights kept compact, reduced activations where the backend
           // likes
};
enum class KvType { kF32, kF16, kBF16, kQ8 };  // kQ8: 8-bit codes of spread heads (spread.h)
// How a device backend keeps quantised weights when mixed; the bits of products are the same. Other
// backends keep them as they like.
enum class WeightResidency {
  kAuto,       // converted while that takes at most half of the free memory, else compact
  kConverted,  // to 16 bits at load: many rows are faster
  kCompact,    // quantised, where the type has such a form: less memory, and few rows are faster
};

struct KernelOptions {
  Precision precision = Precision::kF32;
  KvType kv_type = KvType::kF32;
  int threads = 0;    // 0: as many as the process may use
  bool fast = false;  // rows need not be independent, where that saves time
  WeightResidency weights = WeightResidency::kAuto;
  // When mixed: products of matrices that ForProducts gave in 8 bits (int8.h), weights with a
  // scale per output, activations with one per row.
  bool eight_bit_products = false;
};

// Shape of the KV memory. Every page holds kPageTokens tokens of one layer's K and V.
struct KvShape {
  int layers = 0;
  int kv_heads = 0;
  int head_dim = 0;
};

struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;      // tokens a row sees back from itself, itself included; 0 = all
  float scale = 0.0f;  // of the scores: 1/sqrt(head_dim), where the model does not say otherwise
  int rope = 0;        // which of SetRopes turns queries and keys; kNoRope: they are not turned
  // [heads] Scores that take part in the softmax and have no value, so that a row may look at
  // nothing; one more term in the merge, after all others. Null: none.
  const Vector* sinks = nullptr;
};

// Optional RMS norm of Q and K before the rotation.
struct QkNormWeights {
  const Vector* query = nullptr;  // [head_dim], or [heads * head_dim] when `whole`
  const Vector* key = nullptr;    // [head_dim], or [kv_heads * head_dim] when `whole`
  bool whole = false;             // one norm over all heads' values instead of one per head
  float eps = 0.0f;
};

// Choices of tokens that were asked for and are perhaps not made yet.
class PendingChoices {
 public:
  virtual ~PendingChoices() = default;
  // Waits until they are made and gives them, once: they are there until this is gone or chosen
  // into again. A row without a token to choose has kNoToken.
  virtual const std::vector<TokenChoice>& Take() = 0;
};

// Panels that requests for tokens name.
struct StepPanels {
  std::span<const PanelRow> panels;
  const PendingChoices* earlier = nullptr;  // whose betas panels may name, taken or not
};

// Runs the operations of steps, perhaps by replaying what it recorded of an earlier step.
class Recorder {
 public:
  virtual ~Recorder() = default;
  // Runs `operations`: what the kernels that made this are to do for `step` and `kv`, with tensors
  // that stay where they are. Equal variants and counts of rows mean the same operations.
  virtual void Run(const StepInputs& /*step*/, const KvMemory& /*kv*/, int /*variant*/,
                   const std::function<void()>& operations) {
    operations();
  }
};

enum class Activation {
  kGelu,  // x Φ(x), with the normal distribution itself (not its approximation by tanh)
  kTanh,
};

// Shapes of activations that are needed at the same time.
struct TensorShape {
  std::int64_t rows = 0, columns = 0;
};
using TensorGroup = std::vector<TensorShape>;

// How to time an operation.
struct TimedRuns {
  int count = 1;
  bool empty_caches = true;  // before every run, as if much else had happened since the last
};

class Kernels {
 public:
  virtual ~Kernels() = default;

  virtual std::string name() const = 0;  // "cpu (avx512, 2 threads)"
  // What its bits depend on beside the code and the options: instruction set, device, libraries.
  virtual std::string arithmetic() const = 0;
  // (item of attention, KV head) pairs that keep all workers busy to the end.
  virtual int attention_tasks() const = 0;
  // Which items of several groups are worth while; kernels take any plan.
  virtual GroupJoining JoiningFor(const AttentionShape& /*shape*/) const { return {}; }
  virtual const KernelOptions& options() const = 0;
  // Whether operations return before they are done, so that the host can prepare the next step.
  virtual bool asynchronous() const { return false; }
  // What this machine reaches at best, measured now (some tens of milliseconds): the rate of large
  // matrix products and of reading memory. Zeros where that says nothing (reference).
  virtual MachineRates MeasureRates() = 0;
  // Seconds of each run of `work`, which calls operations of these kernels, by the device's clock.
  virtual std::vector<double> TimeRuns(const TimedRuns& runs, const std::function<void()>& work);

  // --- Memory --------------------------------------------------------------------------------
  // Activations of `rows` rows, contents undefined. Throws kLimit when memory is not to be had.
  virtual Tensor NewTensor(std::int64_t rows, std::int64_t columns) = 0;
  // The same for several groups of activations. Those of one group are needed at the same time,
  // those of different groups never are: a backend may let groups have the same memory.
  virtual std::vector<std::vector<Tensor>> NewTensorGroups(std::span<const TensorGroup> groups);
  // Before loading: about how many weights will come.
  virtual void ExpectWeights(std::int64_t /*weights*/) {}
  // A matrix [sum of rows, columns] made of the given parts stacked by rows (fused Q, K, V may have
  // different types), repacked as the backend likes. `row_order`, when not empty, says which
  // stacked source row becomes each row. REQUIRES: equal columns.
  virtual std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                                   std::span<const std::int32_t> row_order) = 0;
  // Made where it will stay: the same bf16 values on every backend (random_weights.h).
  virtual std::shared_ptr<const Matrix> RandomMatrix(const RandomWeights& weights);
  // The matrix as products alone need it, where the options want a form of its own for them; else
  // itself. The embedding, and experts to be gathered, must stay as they were loaded.
  virtual std::shared_ptr<const Matrix> ForProducts(std::shared_ptr<const Matrix> matrix) {
    return matrix;
  }
  virtual std::shared_ptr<const Vector> LoadVector(std::span<const float> values) = 0;
  // Throws kLimit when memory is not to be had. By itself a FactorTable.
  virtual std::shared_ptr<const LowRankTable> LoadLowRank(const LowRankSource& source);
  // Experts of one shape as MixExperts takes them. REQUIRES: at least one, loaded by this backend.
  virtual std::shared_ptr<const ExpertTable> GatherExperts(std::vector<ExpertWeights> experts);
  virtual std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) = 0;
  // In the order of operations, as all that follows. REQUIRES: no page is written twice, none that
  // is read is written.
  virtual void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) = 0;
  // Pages as bytes in the form that all backends share (page_form.h), with elements of `page_type`:
  // bytes are [layers, pages, kv_heads, head]. In the order of operations; ReadPages waits for
  // the operations before it.
  virtual KvType page_type() const { return options().kv_type; }
  virtual void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                         std::span<std::byte> bytes) = 0;
  virtual void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                          KvMemory& kv) = 0;
  // Bytes that could still be allocated on the device; nothing where memory is the machine's own.
  virtual std::optional<std::int64_t> FreeDeviceMemory() const { return std::nullopt; }
  // Bytes of one page over all layers, for budgets.
  virtual std::int64_t KvPageBytes(const KvShape& shape) const = 0;
  // What turns queries and keys in every later step: AttentionShape::rope names one of them.
  virtual void SetRopes(std::span<const RopeTable> ropes) = 0;
  // The step's index arrays in backend memory, with its cosines and sines. `earlier` (may be null
  // when no row names one, see ChoiceToken) are the choices whose tokens rows may feed, taken or
  // not. The arrays come into `step`, which is null or holds those of an earlier step that nobody
  // needs any more; their memory may be used again.
  virtual void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
                      std::unique_ptr<StepInputs>& step) = 0;
  std::unique_ptr<StepInputs> Upload(const Batch& batch, const AttentionPlan& plan,
                                     const PendingChoices* earlier = nullptr) {
    std::unique_ptr<StepInputs> step;
    Upload(batch, plan, earlier, step);
    return step;
  }

  // For the steps of one forward pass; these kernels must outlive it.
  virtual std::unique_ptr<Recorder> NewRecorder() { return std::make_unique<Recorder>(); }

  // --- The network ---------------------------------------------------------------------------
  // out[r] = table[token of row r].                                     out [rows, columns]
  virtual void Embed(const StepInputs& step, const Matrix& table, Tensor& out) = 0;
  // out[r] = x[r] / sqrt(mean(x[r]²) + eps) * weight.                   x, out [rows, columns]
  virtual void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) = 0;
  // out[r] = (x[r] - mean(x[r])) / sqrt(variance(x[r]) + eps) * weight + bias. x and out may be one
  // tensor.                                                             x, out [rows, columns]
  virtual void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
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
  // out[r] += what the variant of row r adds to the table's matrix, x[r] being the product's input;
  // rows of variant 0, and of variants without a part, stay as they are. The order of a row's sums
  // depends on the row's variant alone.                                 x [rows, k], out [rows, n]
  virtual void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) = 0;
  // out = Glu(W x (+ bias) + what variants add). Rows that get nothing have the bits of MatMulGlu.
  // `scratch` as there.                                                 x [rows, k], out [rows, n]
  virtual void AdaptedGlu(const Tensor& x, const GatedProduct& product, const LowRankCall& more,
                          Tensor& scratch, Tensor& out);
  // out[r] = sum of share * expert(x[r]) over the experts that row r's scores choose (experts.h).
  // x and out may be one tensor.                                        x, out [rows, hidden]
  virtual void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) = 0;
  // Norms (optional) and rotates Q and K, then stores K and V in the rows' slots.
  // qkv [rows, (heads + 2 kv_heads) * head_dim]: all query heads, all key heads, all value heads.
  // Afterwards it is for Attend alone: turned in place, or as it was where the backend keeps turned
  // queries elsewhere.
  virtual void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                              const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) = 0;
  // out[r] = attention of row r over what the plan shows it. out [rows, heads * head_dim]
  // REQUIRES: qkv is that of the last RotateAndStore, with the same shape.
  virtual void Attend(const StepInputs& step, int layer, const AttentionShape& shape,
                      const Tensor& qkv, const KvMemory& kv, Tensor& out) = 0;
  // out[r][i] = gate(x[r][i]) * x[r][n + i].                            x [rows, 2n], out [rows, n]
  virtual void Glu(Gate gate, const Tensor& x, Tensor& out) = 0;
  // x[r][i] = f(x[r][i]).
  virtual void Activate(Activation f, Tensor& x) = 0;
  // out[i] = x[batch.logit_rows[i]].
  virtual void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) = 0;

  // --- From logits to tokens -----------------------------------------------------------------
  // Begins one choice per request, from the row of `logits` or the panel that it names. What the
  // requests point at is not needed afterwards. They come into `choices`: null, or what an earlier
  // call put there and nobody needs any more, whose memory may be used again.
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
  // `logits` [rows, n] is left undefined: a backend may keep few of its rows at a time.
  virtual void MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                            std::span<const SamplingRow> requests,
                            std::unique_ptr<PendingChoices>& choices);
  // Choose without panels, waited for.
  virtual void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                            std::span<TokenChoice> choices) = 0;
  // Log-softmax of the raw logits at (rows[i], tokens[i]), for scoring given text.
  virtual void ScoreTokens(const Tensor& logits, std::span<const std::int32_t> rows,
                           std::span<const TokenId> tokens, std::span<float> logprobs) = 0;
  // fused[i] = the logits of panel i (fusion.h).             logits [rows, n], fused [panels, n]
  virtual void FuseLogits(const Tensor& logits, std::span<const PanelRow> panels,
                          Tensor& fused) = 0;
  // winners[i] = the expert of panel i that tokens[i] is owed to.
  virtual void FindWinners(const Tensor& logits, std::span<const PanelRow> panels,
                           std::span<const TokenId> tokens, std::span<std::int32_t> winners) = 0;
  // Divergence of each pair of rows, in bits (fusion.h).
  virtual void MeasureDivergence(const Tensor& logits, std::span<const RowPair> pairs,
                                 std::span<double> bits) = 0;
  // Copies values to the host as float32: of one row, or of all rows from `row` on that `out` fits.
  virtual void Download(const Tensor& x, std::int64_t row, std::span<float> out) = 0;
};

// The backend for `device`: "cpu", "reference" or "cuda". Throws kUsage for another name, and
// kUnsupported where this build or machine has no such device.
std::unique_ptr<Kernels> MakeKernels(const std::string& device, const KernelOptions& options);

}  // namespace banyan
