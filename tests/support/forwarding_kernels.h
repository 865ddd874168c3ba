// A backend inside another: every operation goes on, and a test overrides those it cares about.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/kernels.h"

namespace banyan::testing_support {

class ForwardingKernels : public Kernels {
 public:
  explicit ForwardingKernels(std::unique_ptr<Kernels> inner) : inner_(std::move(inner)) {}
  // What is inside, for tests that put it back.
  std::unique_ptr<Kernels> Release() { return std::move(inner_); }

  std::string name() const override { return inner_->name(); }
  std::string arithmetic() const override { return inner_->arithmetic(); }
  int attention_tasks() const override { return inner_->attention_tasks(); }
  bool asynchronous() const override { return inner_->asynchronous(); }
  const KernelOptions& options() const override { return inner_->options(); }
  void EnterThread() override { inner_->EnterThread(); }
  MachineRates MeasureRates() override { return inner_->MeasureRates(); }
  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override {
    return inner_->NewTensor(rows, columns);
  }
  std::shared_ptr<const Matrix> LoadMatrix(std::span<const HostTensor* const> parts,
                                           std::span<const std::int32_t> row_order) override {
    return inner_->LoadMatrix(parts, row_order);
  }
  std::shared_ptr<const Vector> LoadVector(std::span<const float> values) override {
    return inner_->LoadVector(values);
  }
  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override {
    return inner_->NewKvMemory(shape, pages);
  }
  void CopyPages(std::span<const PageCopy> copies, KvMemory& kv) override {
    inner_->CopyPages(copies, kv);
  }
  KvType page_type() const override { return inner_->page_type(); }
  void ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                 std::span<std::byte> bytes) override {
    inner_->ReadPages(kv, pages, bytes);
  }
  void WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                  KvMemory& kv) override {
    inner_->WritePages(bytes, pages, kv);
  }
  std::optional<std::int64_t> FreeDeviceMemory() const override {
    return inner_->FreeDeviceMemory();
  }
  std::int64_t KvPageBytes(const KvShape& shape) const override {
    return inner_->KvPageBytes(shape);
  }
  void SetRopes(std::span<const RopeTable> ropes) override { inner_->SetRopes(ropes); }
  void Upload(const Batch& batch, const AttentionPlan& plan, const PendingChoices* earlier,
              std::unique_ptr<StepInputs>& step) override {
    inner_->Upload(batch, plan, earlier, step);
  }
  std::unique_ptr<Recorder> NewRecorder(std::span<Kernels* const> /*together*/) override {
    return inner_->NewRecorder();
  }
  void Embed(const StepInputs& step, const Matrix& table, Tensor& out) override {
    inner_->Embed(step, table, out);
  }
  void RmsNorm(const Tensor& x, const Vector& weight, float eps, Tensor& out) override {
    inner_->RmsNorm(x, weight, eps, out);
  }
  void LayerNorm(const Tensor& x, const Vector& weight, const Vector& bias, float eps,
                 Tensor& out) override {
    inner_->LayerNorm(x, weight, bias, eps, out);
  }
  void Clear(Tensor& x) override { inner_->Clear(x); }
  void Add(const Tensor& delta, Tensor& x) override { inner_->Add(delta, x); }
  void Scale(float factor, Tensor& x) override { inner_->Scale(factor, x); }
  void MatMul(const Tensor& x, const Matrix& w, const Vector* bias, Tensor& out) override {
    inner_->MatMul(x, w, bias, out);
  }
  std::shared_ptr<const LowRankTable> LoadLowRank(const LowRankSource& source) override {
    return inner_->LoadLowRank(source);
  }
  void AddLowRank(const LowRankCall& call, const Tensor& x, Tensor& out) override {
    inner_->AddLowRank(call, x, out);
  }
  void AdaptedGlu(const Tensor& x, const GatedProduct& product, const LowRankCall& more,
                  Tensor& scratch, Tensor& out) override {
    inner_->AdaptedGlu(x, product, more, scratch, out);
  }
  std::shared_ptr<const ExpertTable> GatherExperts(std::vector<ExpertWeights> experts,
                                                   ExpertNumbers numbers) override {
    return inner_->GatherExperts(std::move(experts), std::move(numbers));
  }
  void RmsNormGroups(const Tensor& x, std::int64_t group, const Vector& weight, float eps,
                     Tensor& out) override {
    inner_->RmsNormGroups(x, group, weight, eps, out);
  }
  void GateColumns(Gate gate, const Tensor& gates, const Tensor& values, std::int64_t first,
                   Tensor& out) override {
    inner_->GateColumns(gate, gates, values, first, out);
  }
  void GateAndNorm(const GatedNorm& call, Tensor& x) override { inner_->GateAndNorm(call, x); }
  void GateRows(Gate gate, const Tensor& gates, Tensor& x) override {
    inner_->GateRows(gate, gates, x);
  }
  std::shared_ptr<StateMemory> NewStateMemory(const StateShape& shape, int layers,
                                              int slots) override {
    return inner_->NewStateMemory(shape, layers, slots);
  }
  void CopyStates(std::span<const StateCopy> copies, StateMemory& states) override {
    inner_->CopyStates(copies, states);
  }
  void Convolve(const StepInputs& step, const ConvolutionCall& call, StateMemory& states,
                Tensor& out) override {
    inner_->Convolve(step, call, states, out);
  }
  void Scan(const StepInputs& step, const ScanCall& call, StateMemory& states,
            Tensor& out) override {
    inner_->Scan(step, call, states, out);
  }
  void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out) override {
    inner_->MixExperts(x, call, out);
  }
  void RotateAndStore(const StepInputs& step, int layer, const AttentionShape& shape,
                      const QkNormWeights& norm, Tensor& qkv, KvMemory& kv) override {
    inner_->RotateAndStore(step, layer, shape, norm, qkv, kv);
  }
  void Attend(const StepInputs& step, int layer, const AttentionShape& shape, const Tensor& qkv,
              const KvMemory& kv, Tensor& out) override {
    inner_->Attend(step, layer, shape, qkv, kv, out);
  }
  void Glu(Gate gate, const Tensor& x, Tensor& out) override { inner_->Glu(gate, x, out); }
  void Activate(Activation f, Tensor& x) override { inner_->Activate(f, x); }
  void GatherLogitRows(const StepInputs& step, const Tensor& x, Tensor& out) override {
    inner_->GatherLogitRows(step, x, out);
  }
  void Choose(const Tensor& logits, std::span<const SamplingRow> requests, const StepPanels& panels,
              std::unique_ptr<PendingChoices>& choices) override {
    inner_->Choose(logits, requests, panels, choices);
  }
  void SelectTokens(const Tensor& logits, std::span<const SamplingRow> requests,
                    std::span<TokenChoice> choices) override {
    inner_->SelectTokens(logits, requests, choices);
  }
  void Download(const Tensor& x, std::int64_t row, std::span<float> out) override {
    inner_->Download(x, row, out);
  }

 protected:
  Kernels& inner() const { return *inner_; }

 private:
  std::unique_ptr<Kernels> inner_;
};

}  // namespace banyan::testing_support
