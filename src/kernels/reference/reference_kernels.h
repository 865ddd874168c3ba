// The specification: every operation written the plain way, summed in double, one thread. Slow on
// purpose. Other backends are judged by it, so nothing here is ever made clever.
// Both precisions compute the same way; they differ only in the type that KV is rounded to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/kernels.h"

namespace banyan {

std::unique_ptr<Kernels> MakeReferenceKernels(const KernelOptions& options);

}  // namespace banyan

namespace banyan::reference {

// What lies behind the opaque handles in the reference backend: plain row-major float32 arrays, and
// the step as it was given. For the backend's own files and tests.

struct FloatMatrix final : Matrix {
  std::vector<float> values;  // [rows, columns]
  std::span<const float> Row(std::int64_t row) const;
  // For int8 products (int8.h), instead of values.
  std::vector<std::int8_t> codes;  // [rows, columns]
  std::vector<float> scales;       // [rows]
};

struct FloatVector final : Vector {
  std::vector<float> values;  // [size]
};

// Float values that were rounded to the KV type when they were stored.
struct FloatKv final : KvMemory {
  KvShape shape;
  KvType type = KvType::kF32;
  std::vector<float> keys;    // [layers, pages, kv_heads, kPageTokens, head_dim] of each layer
  std::vector<float> values;  // the same
  // Index of the first value of one head of one token; slot = page * kPageTokens + offset.
  size_t Offset(int layer, std::int32_t slot, int kv_head) const;
  void Copy(const PageCopy& copy);
  // Pages from or to page_form.h in float32.
  void Read(std::span<const std::int32_t> pages, std::span<std::byte> bytes) const;
  void Write(std::span<const std::byte> bytes, std::span<const std::int32_t> pages);
};

// What a rope does to a step's rows.
struct StepRope {
  int rotary_dim = 0;
  std::vector<float> cosines, sines;  // [rows, rotary_dim / 2], times the rope's scale
  std::vector<float> query_factors;   // [rows]
};

struct Step final : StepInputs {
  Batch batch;
  AttentionPlan plan;
  std::vector<std::int32_t> item_of_partial;  // [plan.partials]
  std::vector<StepRope> ropes;                // of SetRopes
};

// The tensor's memory. REQUIRES: made by this backend, 0 <= row < rows.
std::span<float> Row(Tensor& tensor, std::int64_t row);
std::span<const float> Row(const Tensor& tensor, std::int64_t row);

// Rounds one head's values in place to what `type` can hold: to nearest, ties to even; kQ8 keeps
// round(x / s) * s of the Hadamard-transformed head (hadamard.h), s = max|x| / 127, transformed
// back. Non-finite input to kQ8 makes the whole head NaN.
void RoundToKvType(KvType type, std::span<float> head);

const Step& AsStep(const StepInputs& step);
const FloatMatrix& AsFloats(const Matrix& matrix);
const FloatVector& AsFloats(const Vector& vector);
const FloatKv& AsFloats(const KvMemory& kv);
FloatKv& AsFloats(KvMemory& kv);

}  // namespace banyan::reference
