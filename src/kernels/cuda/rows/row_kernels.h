// Operations of the network that take each row by itself: launchers over device pointers. A row's
// arithmetic has one fixed order of sums, whatever the grid.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/experts.h"

namespace banyan::cuda {

struct RowLayout {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  // elements from row to row

  bool empty() const { return rows <= 0 || columns <= 0; }
};

// Rows in 8 bits (kernels/int8.h).
struct Int8Rows {
  std::int8_t* codes = nullptr;  // [rows, CodeStride(columns)]
  float* scales = nullptr;       // [rows]
};
// Codes from row to row: whole boxes of the copy engine, the padding zero.
inline std::int64_t CodeStride(std::int64_t columns) { return (columns + 127) / 128 * 128; }

// Where an operation leaves its rows: one of the two is null.
struct RowOutput {
  float* float32 = nullptr;
  __nv_bfloat16* bf16 = nullptr;
  Int8Rows codes = {};  // of the bf16 rows as well; norms only
};

void RowsToFloat32(cudaStream_t stream, const __nv_bfloat16* x, RowLayout range, float* out);
void RowsToBf16(cudaStream_t stream, const float* x, RowLayout range, __nv_bfloat16* out);

// Rows [first, first + count) of a table of float32 or bf16, of RowLayout::stride elements each;
// they may be another device's.
template <typename Value>
struct TableRows {
  const Value* rows = nullptr;
  std::int64_t first = 0, count = 0;
};
// out[r] = row tokens[r] of the table, for those that lie in it; other rows stay.
void EmbedRows(cudaStream_t stream, const std::int32_t* tokens, TableRows<float> table,
               RowLayout range, float* out);
void EmbedRows(cudaStream_t stream, const std::int32_t* tokens, TableRows<__nv_bfloat16> table,
               RowLayout range, float* out);
// Bytes of each row of some memory, which may be another device's, and where they come to lie in
// the rows of another.
struct ColumnBytes {
  const std::byte* from = nullptr;  // those of the first row
  std::int64_t stride = 0;          // from row to row
  std::int64_t to = 0, count = 0;
};
// All of them in one launch (of a few, where there are many), which begins when everything before
// it is done: on other streams too, where this one waits for them.
void CopyColumnBytes(cudaStream_t stream, std::span<const ColumnBytes> pieces, std::int64_t rows,
                     std::byte* out, std::int64_t out_stride);
// out[i] = x[index[i]] for range.rows rows of out.
void GatherRows(cudaStream_t stream, const std::int32_t* index, const float* x, RowLayout range,
                float* out);
void GatherRows(cudaStream_t stream, const std::int32_t* index, const __nv_bfloat16* x,
                RowLayout range, __nv_bfloat16* out);
// x[r] += delta[r] + bias; either may be null.
void AddRows(cudaStream_t stream, const float* delta, const float* bias, RowLayout range, float* x);
// In norm.cu. x and out.float32 may be the same; `weight` is padded to the stride. Codes are those
// of QuantizeRows.
void RmsNormRows(cudaStream_t stream, const float* x, const float* weight, float eps,
                 RowLayout range, RowOutput out);
// In norm.cu: every `group` columns by themselves, a divisor of them; `weight` is of all columns
// or, with `same_weight`, of one group. x and out may be the same.
struct GroupNorm {
  std::int64_t group = 0;
  const float* weight = nullptr;
  bool same_weight = false;
  float eps = 0.0f;
};
void RmsNormGroupsOfRows(cudaStream_t stream, const float* x, const GroupNorm& norm,
                         RowLayout range, float* out);
// In norm.cu: gates that are applied after the norm of a group or before it; they have rows of
// range.stride elements.
struct GroupGate {
  Gate function = Gate::kSilu;
  const float* gates = nullptr;
  bool norm_first = false;
};
void GateAndNormRows(cudaStream_t stream, const float* x, const GroupNorm& norm,
                     const GroupGate& gate, RowLayout range, RowOutput out);
// In norm.cu. x and out may be the same.
void LayerNormRows(cudaStream_t stream, const float* x, const float* weight, const float* bias,
                   float eps, RowLayout range, float* out);
void GeluRows(cudaStream_t stream, RowLayout range, float* x);
void TanhRows(cudaStream_t stream, RowLayout range, float* x);
// x[r] *= factor.
void ScaleRows(cudaStream_t stream, RowLayout range, float factor, float* x);
// range is of the output; x has rows of x_stride elements, gate then up.
void SwiGluRows(cudaStream_t stream, const float* x, std::int64_t x_stride, RowLayout range,
                RowOutput out);
void SwiGluRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride, RowLayout range,
                __nv_bfloat16* out);
// The same with GELU by tanh instead of silu.
void GeGluRows(cudaStream_t stream, const float* x, std::int64_t x_stride, RowLayout range,
               RowOutput out);
void GeGluRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride, RowLayout range,
               __nv_bfloat16* out);

// out[r] = gate(gates[r]) * values[r]; range is of gates and out, which may be the same; values
// have rows of values_stride elements and may be out as well.
void GateColumnsOfRows(cudaStream_t stream, Gate gate, const float* gates, RowLayout range,
                       const float* values, std::int64_t values_stride, RowOutput out);
void GateColumnsOfRows(cudaStream_t stream, Gate gate, const float* gates, RowLayout range,
                       const __nv_bfloat16* values, std::int64_t values_stride, __nv_bfloat16* out);
// x[r] *= gate(gates[r * gates_stride]).
void GateWholeRows(cudaStream_t stream, Gate gate, const float* gates, std::int64_t gates_stride,
                   RowLayout range, float* x);

// --- Rows in 8 bits, made of bf16 rows (int8_rows.cu) -------------------------------------------
// When the kernel that reads the codes may begin.
enum class CodeReader {
  kWaits,  // it waits for this one (launch.cuh) and may begin early
  kLater,  // it takes them for constants
};

void QuantizeRows(cudaStream_t stream, const __nv_bfloat16* x, RowLayout range, CodeReader reader,
                  Int8Rows out);
// SwiGLU of bf16 rows (gate, then up, x_stride elements a row) to bf16 rows, and these to codes:
// the bits of SwiGluRows and QuantizeRows. range is of the outputs.
void SwiGluAndQuantizeRows(cudaStream_t stream, const __nv_bfloat16* x, std::int64_t x_stride,
                           RowLayout range, __nv_bfloat16* out, Int8Rows codes);

}  // namespace banyan::cuda
