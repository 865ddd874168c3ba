// Quantised weights (quantised_matrix.h): between a file's blocks, tiles and plain rows.
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/weights/quantised_fragments.cuh"
#include "kernels/cuda/weights/quantised_matrix.h"

namespace banyan::cuda {

std::optional<QuantisedForm> QuantisedFormOf(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return QuantisedForm::kQ8_0;
    case DType::kQ4_0:
      return QuantisedForm::kQ4_0;
    case DType::kQ4_K:
      return QuantisedForm::kQ4_K;
    case DType::kQ6_K:
      return QuantisedForm::kQ6_K;
    case DType::kMXFP4:
      return QuantisedForm::kMXFP4;
    case DType::kQ4_1:
      return QuantisedForm::kQ4_1;
    case DType::kQ5_K:
      return QuantisedForm::kQ5_K;
    case DType::kIQ4_NL:
      return QuantisedForm::kIQ4_NL;
    default:
      return std::nullopt;
  }
}

int TileColumns(QuantisedForm form) {
  return form == QuantisedForm::kQ8_0 || form == QuantisedForm::kQ6_K ? 32 : 64;
}

int RecordBytes(QuantisedForm form) {
  switch (form) {
    case QuantisedForm::kQ8_0:
      return 4;
    case QuantisedForm::kQ4_0:
      return 8;
    case QuantisedForm::kQ4_K:
      return 16;
    case QuantisedForm::kQ6_K:
      return 8;
    case QuantisedForm::kMXFP4:
      return 4;
    case QuantisedForm::kQ4_1:
      return 16;
    case QuantisedForm::kQ5_K:
      return 32;
    case QuantisedForm::kIQ4_NL:
      return 8;
  }
  return 0;
}

bool ConvertsOnDevice(DType type) {
  return type == DType::kF32 || type == DType::kF16 || QuantisedFormOf(type).has_value();
}

namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// Where a tile of rows lies, and what of it exists.
struct TileCall {
  QuantisedRows w;
  std::int64_t first_tile = 0;  // of 16 rows
  std::int64_t row_tiles = 0;   // that this call is about
  int tiles = 0;                // along the columns
};

// One warp a tile.
template <QuantisedForm kForm>
__global__ void PackKernel(TileCall call, const std::uint8_t* raw, std::int64_t count) {
  using F = Form<kForm>;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (index >= call.row_tiles * call.tiles) return;
  const std::int64_t row_tile = index / call.tiles;
  const int tile = static_cast<int>(index % call.tiles);
  const auto columns = static_cast<int>(call.w.columns);
  const int blocks = columns / F::kBlock;
  const std::int64_t row_bytes = static_cast<std::int64_t>(blocks) * F::kBlockBytes;
  const auto row_at = [&](int row) -> const std::uint8_t* {
    const std::int64_t r = row_tile * kTileRows + row;
    return r < count ? raw + r * row_bytes : nullptr;
  };
  std::uint32_t words[4] = {}, fifth_bits = 0;
  for (int step = 0; step < kTileSteps<kForm>; ++step) {
    for (int place = 0; place < 8; ++place) {
      const std::uint8_t* row = row_at(RowOf(lane, place));
      const int column = tile * kTileColumns<kForm> + ColumnOf(lane, step, place);
      const auto code = static_cast<std::uint32_t>(
          row != nullptr && column < columns ? F::Code(row, column) : F::kZeroCode);
      if constexpr (F::kBits == 8) {
        words[2 * step + place / 4] |= code << (8 * (place % 4));
      } else {
        words[step] |= (code & 15u) << (4 * place);
        fifth_bits |= (code >> 4) << (8 * step + place);
      }
    }
  }
  const std::int64_t at = (call.first_tile + row_tile) * call.tiles + tile;
  reinterpret_cast<uint4*>(call.w.codes + at * kTileBytes)[lane] =
      make_uint4(words[0], words[1], words[2], words[3]);
  if (lane < 8) {
    std::uint8_t record[F::kRecordBytes] = {};
    for (int high = 0; high < 2; ++high) {
      const std::uint8_t* row = row_at(lane + 8 * high);
      if (row != nullptr) F::PackRecord(row, tile, high, blocks, record);
    }
    std::uint8_t* target = call.w.records + (at * 8 + lane) * F::kRecordBytes;
    for (int i = 0; i < F::kRecordBytes; ++i) target[i] = record[i];
  }
  if constexpr (kFiveBits<kForm>) {
    __syncwarp();  // records are there, without these bits
    *FifthBitsOf<kForm>(call.w.records + (at * 8 + lane / 4) * F::kRecordBytes, lane) = fifth_bits;
  }
}

// One thread two neighbours of a row.
template <typename Value>
__global__ void ConvertKernel(StoredRows rows, std::int64_t stride, Value value,
                              __nv_bfloat16* out) {
  const std::int64_t pairs = stride / 2;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= rows.count * pairs) return;
  const std::int64_t row = index / pairs;
  const auto column = static_cast<int>(index % pairs) * 2;
  const float low = column < rows.columns ? value(rows, row, column) : 0.0f;
  const float high = column + 1 < rows.columns ? value(rows, row, column + 1) : 0.0f;
  reinterpret_cast<std::uint32_t*>(out)[index] = PackPair(low, high, __nv_bfloat16{});
}

struct FloatValue {
  __device__ float operator()(const StoredRows& rows, std::int64_t row, int column) const {
    return static_cast<const float*>(rows.raw)[row * rows.columns + column];
  }
};
struct HalfValue {
  __device__ float operator()(const StoredRows& rows, std::int64_t row, int column) const {
    return __half2float(static_cast<const __half*>(rows.raw)[row * rows.columns + column]);
  }
};
template <QuantisedForm kForm>
struct BlockValue {
  __device__ float operator()(const StoredRows& rows, std::int64_t row, int column) const {
    using F = Form<kForm>;
    const std::int64_t row_bytes = rows.columns / F::kBlock * F::kBlockBytes;
    return F::Stored(static_cast<const std::uint8_t*>(rows.raw) + row * row_bytes, column);
  }
};

// One warp a tile, by way of shared memory: rows leave in pieces of 16 bytes.
template <QuantisedForm kForm>
__global__ void __launch_bounds__(kThreads)
    UnpackKernel(TileCall call, std::int64_t stride, __nv_bfloat16* out) {
  constexpr int kPieces = kTileColumns<kForm> / 8;
  constexpr int kRowBytes = kTileColumns<kForm> * 2 + 16;  // so that rows start in other banks
  __shared__ __align__(16) std::uint8_t staged[kWarps][kTileRows * kRowBytes];
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (index >= call.row_tiles * call.tiles) return;
  std::uint8_t* mine = staged[threadIdx.x / 32];
  const uint4 four = reinterpret_cast<const uint4*>(call.w.codes + index * kTileBytes)[lane];
  const std::uint32_t words[4] = {four.x, four.y, four.z, four.w};
  const std::uint8_t* record = call.w.records + (index * 8 + lane / 4) * Form<kForm>::kRecordBytes;
#pragma unroll
  for (int step = 0; step < kTileSteps<kForm>; ++step) {
    std::uint32_t a[4];
    FragmentAt<kForm>(words, record, step, a);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = RowOf(lane, 2 * i), column = ColumnOf(lane, step, 2 * i);
      *reinterpret_cast<std::uint32_t*>(mine + row * kRowBytes + column * 2) = a[i];
    }
  }
  __syncwarp();
  const std::int64_t first_row = index / call.tiles * kTileRows;
  const std::int64_t first_column = index % call.tiles * kTileColumns<kForm>;
  for (int p = lane; p < kTileRows * kPieces; p += 32) {
    const int row = p / kPieces, piece = p % kPieces;
    const std::int64_t column = first_column + piece * 8;
    if (column >= stride) continue;
    *reinterpret_cast<uint4*>(out + (first_row + row) * stride + column) =
        *reinterpret_cast<const uint4*>(mine + row * kRowBytes + piece * 16);
  }
}

// One block a row of the output.
template <QuantisedForm kForm>
__global__ void EmbedKernel(const std::int32_t* tokens, QuantisedRows w, int tiles, RowLayout range,
                            float* out) {
  const std::int64_t row = tokens[blockIdx.x] - w.first_row;
  if (row < 0 || row >= w.rows) return;
  const std::int64_t first = row / kTileRows * tiles;
  for (int column = static_cast<int>(threadIdx.x); column < range.columns;
       column += static_cast<int>(blockDim.x)) {
    const TilePlace place(static_cast<int>(row % kTileRows), column % kTileColumns<kForm>);
    const std::int64_t at = first + column / kTileColumns<kForm>;
    const auto* words =
        reinterpret_cast<const std::uint32_t*>(w.codes + at * kTileBytes + place.lane * 16);
    const std::uint8_t* record = w.records + (at * 8 + place.lane / 4) * Form<kForm>::kRecordBytes;
    const PairScales scales = Form<kForm>::Scales(record, place.step);
    const int high = place.place / 2 % 2;
    const float value =
        Form<kForm>::Value(CodeAt<kForm>(words, record, place.lane, place.step, place.place),
                           scales.scale[high], scales.minimum[high]);
    out[blockIdx.x * range.stride + column] = __bfloat162float(__float2bfloat16_rn(value));
  }
}

// Calls work.operator()<kForm>().
template <typename Work>
void WithForm(QuantisedForm form, const Work& work) {
  switch (form) {
    case QuantisedForm::kQ8_0:
      return work.template operator()<QuantisedForm::kQ8_0>();
    case QuantisedForm::kQ4_0:
      return work.template operator()<QuantisedForm::kQ4_0>();
    case QuantisedForm::kQ4_1:
      return work.template operator()<QuantisedForm::kQ4_1>();
    case QuantisedForm::kQ4_K:
      return work.template operator()<QuantisedForm::kQ4_K>();
    case QuantisedForm::kQ5_K:
      return work.template operator()<QuantisedForm::kQ5_K>();
    case QuantisedForm::kQ6_K:
      return work.template operator()<QuantisedForm::kQ6_K>();
    case QuantisedForm::kMXFP4:
      return work.template operator()<QuantisedForm::kMXFP4>();
    case QuantisedForm::kIQ4_NL:
      return work.template operator()<QuantisedForm::kIQ4_NL>();
  }
}

unsigned Blocks(std::int64_t count, int each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

template <typename Value>
void Convert(cudaStream_t stream, const StoredRows& rows, std::int64_t stride, Value value,
             __nv_bfloat16* out) {
  ConvertKernel<<<Blocks(rows.count * stride / 2, kThreads), kThreads, 0, stream>>>(rows, stride,
                                                                                    value, out);
  CheckLaunch("conversion of weights");
}

}  // namespace

void PackRows(cudaStream_t stream, const void* raw, std::int64_t begin, std::int64_t count,
              const QuantisedRows& w) {
  const TileCall call{w, begin / kTileRows, (count + kTileRows - 1) / kTileRows,
                      static_cast<int>(TilesOf(w))};
  if (call.row_tiles == 0) return;
  WithForm(w.form, [&]<QuantisedForm kForm>() {
    PackKernel<kForm><<<Blocks(call.row_tiles * call.tiles, kWarps), kThreads, 0, stream>>>(
        call, static_cast<const std::uint8_t*>(raw), count);
  });
  CheckLaunch("packing of weights");
}

void ConvertRows(cudaStream_t stream, const StoredRows& rows, std::int64_t stride,
                 __nv_bfloat16* out) {
  if (rows.count == 0) return;
  if (rows.type == DType::kF32) return Convert(stream, rows, stride, FloatValue{}, out);
  if (rows.type == DType::kF16) return Convert(stream, rows, stride, HalfValue{}, out);
  WithForm(*QuantisedFormOf(rows.type),
           [&]<QuantisedForm kForm>() { Convert(stream, rows, stride, BlockValue<kForm>{}, out); });
}

void UnpackRows(cudaStream_t stream, const QuantisedRows& w, std::int64_t stride,
                __nv_bfloat16* out) {
  const TileCall call{w, 0, w.padded_rows / kTileRows, static_cast<int>(TilesOf(w))};
  WithForm(w.form, [&]<QuantisedForm kForm>() {
    UnpackKernel<kForm>
        <<<Blocks(call.row_tiles * call.tiles, kWarps), kThreads, 0, stream>>>(call, stride, out);
  });
  CheckLaunch("unpacking of weights");
}

void EmbedQuantisedRows(cudaStream_t stream, const std::int32_t* tokens, const QuantisedRows& w,
                        RowLayout range, float* out) {
  if (range.rows == 0) return;
  const auto rows = static_cast<unsigned>(range.rows);
  WithForm(w.form, [&]<QuantisedForm kForm>() {
    EmbedKernel<kForm>
        <<<rows, kThreads, 0, stream>>>(tokens, w, static_cast<int>(TilesOf(w)), range, out);
  });
  CheckLaunch("embedding");
}

}  // namespace banyan::cuda
