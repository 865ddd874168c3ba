// The inner loops of the cpu backend, as one table of functions per instruction set. The same
// source (vector_kernels.inc) is compiled for each; cpu_path.h lists them.
#pragma once

#include <cstdint>

namespace banyan {

inline constexpr int kPanelWidth = 16;  // outputs of a panel

// out[r][16 p + j] = sum over i in order of x[r][i] * w[p][i][j]: one chain per output, so a row's
// bits depend on nothing but the row and the panel.
struct PanelProduct {
  const float* x = nullptr;   // [rows, inner], rows x_stride apart
  std::int64_t x_stride = 0;  // floats
  int rows = 0;
  int inner = 0;                          // terms of a sum
  const void* panels = nullptr;           // [panels, inner, 16] of the element type
  std::int64_t panel_stride = 0;          // elements from one panel to the next
  const void* const* panel_at = nullptr;  // instead of both: where each panel is
  int panel_count = 0;
  float* out = nullptr;         // [rows, 16 * panel_count], rows out_stride apart
  std::int64_t out_stride = 0;  // floats
  bool goes_on = false;         // chains continue from `out` instead of zero
};

// A partial of attention for one row and head is [padded_dim + 16] floats: padded_dim weighted
// values relative to 2^max, then in a cache line of their own max (in units of log2) and the sum of
// weights (0 = empty).
inline constexpr int kPartialEnd = 16;  // floats after the values: max, sum, padding

// Softmax numerators of rows over the keys of a cut, in place: the score of a key that a row sees
// becomes 2^(score - max), that of any other zero.
struct SoftmaxRows {
  struct Keys {
    std::int32_t begin, end;
  };
  float* scores = nullptr;  // [rows, keys], rows `stride` floats apart
  std::int64_t stride = 0;
  int rows = 0;
  int keys = 0;                  // a multiple of 16
  const Keys* seen = nullptr;    // [rows]
  float* max_and_sum = nullptr;  // of row r at r * ends_stride: -inf and 0 when there is no key
  std::int64_t ends_stride = 0;
};

// Output of quantize_rows: consecutive blocks of a group of rows (Int8Rows of integer_kernels.h).
struct Int8Blocks {
  std::int8_t* codes;
  float* scales;
  float* sums[3];
  std::int32_t* starts[3];
};

// values[r][c] += scale * (left right)[r][c]. The sum goes from rank 0 up, and every product and
// sum is rounded on its own: an adapter's merged weights are the same on every machine.
struct LowRankRows {
  const float* left = nullptr;  // [rows, rank]
  int rows = 0;
  int rank = 0;
  const float* right = nullptr;  // [rank, columns]
  int columns = 0;               // a multiple of 16
  float scale = 0.0f;
  float* values = nullptr;  // [rows, columns]
};

// One token of a convolution: out[c] = bias[c] + the sum over taps, oldest first.
struct ConvolvedToken {
  const float* const* inputs = nullptr;  // [tap_count][channels]
  const float* taps = nullptr;           // [tap_count, channels], rows taps_stride floats apart
  std::int64_t taps_stride = 0;
  int tap_count = 0;
  const float* bias = nullptr;  // [channels]; null: 0
  int channels = 0;
  float* out = nullptr;  // [channels]
};

// Tokens of one head, in order: kernels/states.h, without norms and `skip`.
struct ScannedHead {
  float* matrix = nullptr;  // [tiles, key_dim, 16], changed by every token
  int key_dim = 0;
  int tiles = 0;  // of 16 values
  int rows = 0;
  const float *keys = nullptr, *queries = nullptr;      // [rows, key_dim]
  const float *decays = nullptr, *strengths = nullptr;  // [rows]
  const float* values = nullptr;                        // [rows, 16 tiles], rows `stride` apart
  std::int64_t stride = 0;                              // floats
  bool delta = false;                                   // StateRule::kDelta
  float* out = nullptr;                                 // as values
};

// out[i] = gate(gate[i]) * up[i].
using GluLoop = void (*)(const float* gate, const float* up, std::int64_t count, float* out);

struct VectorKernels {
  void (*product_f32)(const PanelProduct&);
  void (*product_f16)(const PanelProduct&);
  void (*product_bf16)(const PanelProduct&);
  void (*f16_to_float)(const std::uint16_t* in, std::int64_t count, float* out);  // count % 16 == 0
  void (*bf16_to_float)(const std::uint16_t* in, std::int64_t count,
                        float* out);  // count % 16 == 0
  // Rounded to the nearest, ties to even. count % 16 == 0.
  void (*float_to_f16)(const float* in, std::int64_t count, std::uint16_t* out);
  void (*float_to_bf16)(const float* in, std::int64_t count, std::uint16_t* out);
  // int8 [count / 16][16] times one scale per lane (a tile of K).
  void (*codes_to_float_by_lane)(const std::int8_t* in, const float* scales, std::int64_t count,
                                 float* out);
  // Quantizes 32 * blocks columns of a group of rows.
  void (*quantize_rows)(const float* x, std::int64_t x_stride, int rows, int blocks, int start_unit,
                        const Int8Blocks& out);
  void (*rms_norm)(const float* x, const float* weight, int columns, float eps, float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, int columns, float eps,
                     float* out);
  // Rotates pairs (i, half + i) of the head by angle i.
  void (*rotate)(const float* cosine, const float* sine, int half, float* head);
  void (*add)(const float* delta, std::int64_t count, float* x);
  GluLoop swiglu;                              // silu
  GluLoop geglu;                               // GELU by tanh
  GluLoop logistic;                            // 1 / (1 + exp(-x))
  void (*gelu)(std::int64_t count, float* x);  // in place
  void (*softmax)(const SoftmaxRows&);
  bool (*all_finite)(const float* values, std::int64_t count);  // count % 16 == 0
  // acc = acc ⊕ next, two partials; an empty side leaves the other as it is.
  void (*merge)(float* acc, const float* next, int padded_dim);
  void (*scale)(const float* x, float factor, std::int64_t count, float* out);
  void (*add_low_rank)(const LowRankRows&);
  void (*convolve)(const ConvolvedToken&);
  void (*scan)(const ScannedHead&);
  // Of logits, ignoring NaN: the largest, and the sum of exp(logit - largest) in 16 lanes.
  float (*largest)(const float* logits, std::int64_t count);
  float (*sum_of_powers)(const float* logits, std::int64_t count, float largest);
  // Of products: most rows taken at once, panels taken with as many rows, and panels that a single
  // row needs to keep the processor busy.
  int rows_together, panels_together, panels_for_row;
};

}  // namespace banyan
