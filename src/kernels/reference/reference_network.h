// The operations of the network as plain functions; see Kernels for their contracts. A row's
// attention is one softmax over the keys it sees, in the order of its merge list: how a plan cuts
// that list cannot change the result.
#pragma once

#include "kernels/reference/reference_kernels.h"

namespace banyan::reference {

void Embed(const Step& step, const FloatMatrix& table, Tensor& out);
void RmsNorm(const Tensor& x, std::span<const float> weight, float eps, Tensor& out);
// out[i] = x[i] / sqrt(mean(x²) + eps) * weight[i]; x and out may be the same memory.
void NormalizeRow(std::span<const float> x, std::span<const float> weight, float eps,
                  std::span<float> out);
void RmsNormGroups(const Tensor& x, std::int64_t group, std::span<const float> weight, float eps,
                   Tensor& out);
void LayerNorm(const Tensor& x, const FloatVector& weight, const FloatVector& bias, float eps,
               Tensor& out);
void Clear(Tensor& x);
void Add(const Tensor& delta, Tensor& x);
void MatMul(const Tensor& x, const FloatMatrix& w, const FloatVector* bias, Tensor& out);
// The same values in int8 with a scale per row (int8.h).
std::shared_ptr<const Matrix> QuantizeMatrix(const FloatMatrix& matrix);
void AddLowRank(const Step& step, StepRows rows, const FactorTable& table, const Tensor& x,
                Tensor& out);
void Scale(float factor, Tensor& x);
void Glu(Gate gate, const Tensor& x, Tensor& out);
void EmbedRange(const Step& step, const FloatMatrix& table, std::int64_t first, Tensor& out);
void ExpertInner(const Tensor& x, const ExpertCall& call, ExpertRows rows, Tensor& inner);
void ExpertOutputs(const ExpertCall& call, ExpertRows rows, const Tensor& inner, Tensor& out);
void MixExperts(const Tensor& x, const ExpertCall& call, Tensor& out);
void GateColumns(Gate function, const Tensor& gates, const Tensor& values, std::int64_t first,
                 Tensor& out);
void GateRows(Gate function, const Tensor& gates, Tensor& x);
void CopyColumns(const Tensor& x, const ColumnCopy& columns, Tensor& out);
void Activate(Activation f, Tensor& x);
void GatherLogitRows(const Step& step, const Tensor& x, Tensor& out);

// Which tensors and memory one layer's attention reads.
struct LayerView {
  const Step& step;
  int layer = 0;
  const AttentionShape& shape;
};

void RotateAndStore(const LayerView& view, const QkNormWeights& norm, Tensor& qkv, FloatKv& kv);
void Attend(const LayerView& view, const Tensor& qkv, const FloatKv& kv, Tensor& out);

}  // namespace banyan::reference
