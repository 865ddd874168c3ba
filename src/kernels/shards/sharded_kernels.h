// One model over several shards (tensor parallelism): kernels of one backend each, in one process.
//
// A divided matrix has a range of its outputs on every shard; each shard computes its own and all
// of them gather the rest. Attention is divided by key heads with the query heads that read them,
// KV memory alike. All else every shard computes by itself from equal bits. Nothing is summed over
// shards: each value is computed by one shard as a single device computes it, so no bit depends on
// their number (--tensor-parallel).
//
// Where operations do not wait, shards meet before each gather: what is launched on one afterwards
// comes after what was launched on all before. A part that others read lies in one of two rooms in
// turn, so that its shard may write the next part while they read: one meeting for each gather.
//
// An embedding is divided by its rows, experts by the outputs of their two products. Each shard has
// all of: adapters kept apart, states, and the keys of layers with fewer key heads than shards.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/shards/division.h"
#include "kernels/shards/sharded_memory.h"

namespace banyan {

class ShardedKernels final : public Kernels {
 public:
  // REQUIRES: two or more of one backend, and equal options but for the ordinal. Throws
  // kUnsupported where their devices cannot read each other's memory.
  explicit ShardedKernels(std::vector<std::unique_ptr<Kernels>> shards);
  ~ShardedKernels() override;

  std::string name() const override;
  std::string arithmetic() const override { return first().arithmetic(); }
  int attention_tasks() const override { return first().attention_tasks(); }
  GroupJoining JoiningFor(const AttentionShape& shape) const override;
  const KernelOptions& options() const override { return options_; }
  void EnterThread() override { shard(0).EnterThread(); }
  bool asynchronous() const override { return first().asynchronous(); }
  std::string State() const override;
  MachineRates MeasureRates() override { return shard(0).MeasureRates(); }
  std::vector<double> TimeRuns(const TimedRuns& runs, const std::function<void()>& work) override;

  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override;
  std::vector<std::vector<Tensor>> NewTensorGroups(std::span<const TensorGroup> groups) override;
  void ExpectWeights(std::int64_t weights) override;
  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override;
  std::shared_ptr<const Matrix> LoadDivided(std::span<const HostTensor* const> parts,
                                            std::span<const std::int32_t> row_order,
                                            std::span<const std::int64_t> blocks) override;
  std::shared_ptr<const Matrix> LoadTable(std::span<const HostTensor* const> parts) override;
  std::shared_ptr<const Matrix> ForProducts(std::shared_ptr<const Matrix> matrix) override;
  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override;
  std::shared_ptr<const LowRankTable> LoadLowRank(const LowRankSource& source) override;
  std::shared_ptr<const ExpertTable> GatherExperts(std::vector<ExpertWeights> experts,
                                                   ExpertNumbers numbers) override;
  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override;
  void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) override;
  KvType page_type() const override { return first().page_type(); }
  void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                 std::span<std::byte> bytes) override;
  void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                  KvMemory& kv) override;
  std::shared_ptr<StateMemory> NewStateMemory(const StateShape& shape, int layers,
                                              int slots) override;
  void CopyStates(std::span<const StateCopy> copies, StateMemory& states) override;
  std::optional<std::int64_t> FreeDeviceMemory() const override;
  std::int64_t KvPageBytes(const KvShape& shape) const override;
  std::unique_ptr<Recorder> NewRecorder(std::span<Kernels* const> together) override;
  void SetRopes(std::span<const RopeTable> ropes) override;
  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& step) override;

  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override;
  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override;
  void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                 Tensor& out) override;
  void RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                     Tensor& out) override;
  void Clear(Tensor& x) override;
  void Add(const Tensor& delta, Tensor& x) override;
  void Scale(float factor, Tensor& x) override;
  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override;
  void MatMulAdd(const Tensor& a, const Matrix& w, const Vector* bias, Tensor& scratch,
                 Tensor& x) override;
  void MatMulGlu(const Tensor& x, const GatedProduct& product, Tensor& scratch,
                 Tensor& out) override;
  void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) override;
  void AdaptedGlu(const Tensor& x, const GatedProduct& product, const LowRankCall& more,
                  Tensor& scratch, Tensor& out) override;
  void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) override;
  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override;
  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override;
  void Glu(Gate gate, const Tensor& x, Tensor& out) override;
  void GateColumns(Gate gate, const Tensor& gates, const Tensor& values, std::int64_t from,
                   Tensor& out) override;
  void GateAndNorm(const GatedNorm& call, Tensor& x) override;
  void GateRows(Gate gate, const Tensor& gates, Tensor& x) override;
  void Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                Tensor& out) override;
  void Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
            Tensor& out) override;
  void Activate(Activation f, Tensor& x) override;
  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override;
  void CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out) override;

  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override;
  void MatMulChoose(const Tensor& x, const Matrix& w, Tensor& logits,
                    std::span<const SamplingRow> requests,
                    std::unique_ptr<PendingChoices>& choices) override;
  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override;
  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override;

 private:
  // What a shard computes before it is gathered: parts that others read, in two rooms in turn (of
  // ordinary width, of logits, of experts' inner values); the two halves of a gated product,
  // queries and keys of its heads, a norm over all of them.
  enum Room {
    kPart,
    kOtherPart,
    kWidePart,
    kOtherWidePart,
    kInner,
    kOtherInner,
    kHalves,
    kHeads,
    kWholeNorm,
    kMixed,
    kRooms
  };
  // The heads of a layer that a shard computes.
  struct ShardHeads {
    AttentionShape shape;
    std::int64_t query = 0, key = 0;  // the first of each
  };

  const Kernels& first() const { return *shards_.front(); }
  // To call operations of it.
  Kernels& shard(size_t s) const {
    shards_[s]->EnterThread();
    return *shards_[s];
  }
  size_t count() const { return shards_.size(); }
  void Meet();
  Tensor RoomOf(size_t shard, Room room, std::int64_t rows, std::int64_t columns);
  // Of a part that Share passes on next.
  Tensor PartOf(size_t shard, std::int64_t rows, std::int64_t columns);
  const Vector* BiasOf(const Vector* bias, const ShardedMatrix& w, size_t shard);
  std::shared_ptr<const Vector> BiasRef(const Vector& bias, const ShardedMatrix& w, size_t shard);
  // Columns of parts of all shards to their places in `out` on all shards.
  void Share(std::span<const ColumnPiece> pieces, Tensor& out);
  template <typename Operation>
  void OnAll(Tensor& out, const Operation& operation);
  bool IsWhole(const AttentionShape& shape) const;
  ShardHeads HeadsOf(const AttentionShape& shape, size_t shard);
  const Vector* SinksOf(const AttentionShape& shape, const ShardHeads& heads, size_t shard);
  void MixDivided(const Tensor& x, const ExpertCall& call, Tensor& out);
  void NormWhole(const AttentionShape& shape, const QkNormWeights& norm, Tensor& qkv);

  class StepRecorder;

  std::vector<std::unique_ptr<Kernels>> shards_;
  KernelOptions options_;
  bool apart_ = false;                             // on several devices
  std::vector<std::array<Tensor, kRooms>> rooms_;  // [shards] as large as they were needed
  std::uint64_t grown_ = 0;     // how often one was made larger: recorded steps know their places
  std::int64_t most_rows_ = 0;  // of activations
  bool other_turn_ = false;
};

}  // namespace banyan
