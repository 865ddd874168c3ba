// Tensor maps by the driver's encoder (tensor_map.h).
#include "kernels/cuda/device/tensor_map.h"

#include "base/error.h"
#include "kernels/cuda/device/device.h"

namespace banyan::cuda {
namespace {

// The driver's function, found at run time: programs link no driver, so that they start without
// one. Null where it is too old.
decltype(&cuTensorMapEncodeTiled) Encoder() {
  static const auto encoder = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    constexpr const char* kName = "cuTensorMapEncodeTiled";
#if CUDART_VERSION >= 12050
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion(kName, &found, 12000, cudaEnableDefault, &result);
#else
    const cudaError_t status = cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result);
#endif
    if (status != cudaSuccess) {
      cudaGetLastError();
      found = nullptr;
    }
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(found);
  }();
  return encoder;
}

// Boxes of 128 bytes a row.
CUtensorMap MapOfBytes(const void* matrix, CUtensorMapDataType type, int element_bytes,
                       std::int64_t rows, std::int64_t columns, int box_rows, int boxes) {
  constexpr int kBoxBytes = 128;
  const auto box_columns = static_cast<cuuint32_t>(kBoxBytes / element_bytes);
  CUtensorMap map{};
  const cuuint64_t sizes[3] = {box_columns, static_cast<cuuint64_t>(rows),
                               static_cast<cuuint64_t>(columns) / box_columns};
  const cuuint64_t strides[2] = {
      static_cast<cuuint64_t>(columns) * static_cast<cuuint64_t>(element_bytes), kBoxBytes};
  const cuuint32_t copy[3] = {box_columns, static_cast<cuuint32_t>(box_rows),
                              static_cast<cuuint32_t>(boxes)};
  const cuuint32_t steps[3] = {1, 1, 1};
  const CUresult status =
      Encoder()(&map, type, 3, const_cast<void*>(matrix), sizes, strides, copy, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    Throw(ErrorKind::kIo, "cuda: description of a matrix [{}, {}]: status {}", rows, columns,
          static_cast<int>(status));
  }
  return map;
}

}  // namespace

bool HasTensorMaps() { return Encoder() != nullptr; }

CUtensorMap MapOfMatrix(const __nv_bfloat16* matrix, std::int64_t rows, std::int64_t columns,
                        int box_rows, int boxes) {
  return MapOfBytes(matrix, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, rows, columns, box_rows, boxes);
}

CUtensorMap MapOfInt8(const std::int8_t* matrix, std::int64_t rows, std::int64_t columns,
                      int box_rows, int boxes) {
  return MapOfBytes(matrix, CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, rows, columns, box_rows, boxes);
}

CUtensorMap MapOfRows(const std::uint8_t* matrix, std::int64_t rows, std::int64_t row_bytes,
                      int box_rows, int box_bytes) {
  constexpr int kElement = 8;  // a box has at most 256 of them in a row
  CUtensorMap map{};
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(row_bytes / kElement),
                               static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(row_bytes)};
  const cuuint32_t copy[2] = {static_cast<cuuint32_t>(box_bytes / kElement),
                              static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  const CUresult status =
      Encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_UINT64, 2, const_cast<std::uint8_t*>(matrix), sizes,
                strides, copy, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    Throw(ErrorKind::kIo, "cuda: description of rows [{}, {} bytes]: status {}", rows, row_bytes,
          static_cast<int>(status));
  }
  return map;
}

}  // namespace banyan::cuda
