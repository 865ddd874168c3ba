// Products with int8 weights: the plain kernel, quantisation of weights, and which kernel serves.
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/products/product_store.cuh"
#include "kernels/cuda/rows/tensor_memory.h"

namespace banyan::cuda {

namespace {

constexpr int kPlainThreads = 128;

__global__ void Int8PlainKernel(const std::int8_t* x, const std::int8_t* w, ProductShape shape,
                                Int8End end) {
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kPlainThreads + threadIdx.x;
  if (n >= shape.outputs) return;
  for (std::int64_t r = blockIdx.y; r < shape.rows; r += gridDim.y) {
    const auto* a = reinterpret_cast<const char4*>(x + r * shape.inner);
    const auto* b = reinterpret_cast<const char4*>(w + n * shape.inner);
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < shape.inner / 4; ++k) {
      const char4 p = a[k], q = b[k];
      sum += static_cast<int>(p.x) * q.x + static_cast<int>(p.y) * q.y +
             static_cast<int>(p.z) * q.z + static_cast<int>(p.w) * q.w;
    }
    StoreInt8Sum(end, r * shape.out_stride + n, n, end.x_scales[r], sum);
  }
}

}  // namespace

void MultiplyInt8Plain(cudaStream_t stream, const Int8Operands& operands) {
  const ProductShape& shape = operands.shape;
  const auto across = static_cast<unsigned>((shape.outputs + kPlainThreads - 1) / kPlainThreads);
  const auto down = static_cast<unsigned>(shape.rows < 65535 ? shape.rows : 65535);
  Int8PlainKernel<<<dim3(across, down), kPlainThreads, 0, stream>>>(operands.x, operands.w, shape,
                                                                    EndOf(operands));
  CheckLaunch("product of codes");
}

namespace {

constexpr std::int64_t kScaleAlignment = 256;
// With more rows SwiGLU is faster in one step (at 32 rows and 12288 gates 28 us instead of 36).
constexpr std::int64_t kMostRowsInTwoSteps = 16;

void Run(const Device& device, const Int8Operands& operands) {
  if (Int8FewRowsCanServe(operands)) {
    // With more rows there are more bytes to load for each weight.
    const RingSize ring = operands.shape.rows > 16 ? RingSize::kMost : RingSize::kHalf;
    return MultiplyInt8FewRows(device.stream, operands, ring);
  }
  if (Int8ManyRowsCanServe(operands)) {
    return MultiplyInt8ManyRows(device.stream, operands,
                                Int8TileFor(operands, device.multiprocessors));
  }
  MultiplyInt8Plain(device.stream, operands);
}

}  // namespace

std::shared_ptr<const DeviceMatrix> QuantizeMatrix(const std::shared_ptr<const Device>& device,
                                                   const DeviceMatrix& matrix) {
  const std::int64_t stride = CodeStride(matrix.columns);
  if (stride >= kMostInt8Inner || matrix.form == WeightForm::kF32) return nullptr;
  DeviceMemory unpacked;
  const auto* rows = matrix.memory.As<__nv_bfloat16>();
  if (matrix.form == WeightForm::kQuantised) {
    unpacked = DeviceMemory(device, matrix.padded_rows * matrix.stride * 2, "unpacked weights");
    unpacked.Zero();
    for (const QuantisedRows& part : matrix.quantised) {
      UnpackRows(device->stream, part, matrix.stride,
                 unpacked.As<__nv_bfloat16>() + part.first_row * matrix.stride);
    }
    rows = unpacked.As<__nv_bfloat16>();
  }
  auto quantized = std::make_shared<DeviceMatrix>();
  quantized->rows = matrix.rows;
  quantized->columns = matrix.columns;
  quantized->padded_rows = matrix.padded_rows;
  quantized->form = WeightForm::kInt8;
  quantized->stride = stride;
  const std::int64_t codes =
      (quantized->padded_rows * stride + kScaleAlignment - 1) / kScaleAlignment * kScaleAlignment;
  quantized->bytes = codes + quantized->padded_rows * 4;
  quantized->memory = DeviceMemory(device, quantized->bytes, "weights");
  quantized->scales = reinterpret_cast<float*>(quantized->memory.As<std::int8_t>() + codes);
  QuantizeRows(device->stream, rows, {matrix.padded_rows, matrix.columns, matrix.stride},
               CodeReader::kLater, {quantized->memory.As<std::int8_t>(), quantized->scales});
  return quantized;
}

Int8Operands Int8OperandsOf(const Int8Rows& x, std::int64_t rows, const DeviceMatrix& w,
                            ProductForm form) {
  Int8Operands operands;
  operands.x = x.codes;
  operands.x_scales = x.scales;
  operands.w = w.memory.As<std::int8_t>();
  operands.w_scales = w.scales;
  operands.shape = {rows, w.padded_rows, w.stride, OutputStride(w, form), 0};
  if (form == ProductForm::kSwiGlu) operands.shape.gated = w.rows / 2;
  operands.form = form;
  return operands;
}

bool MultiplyInt8(const Device& device, const Int8Rows& x, std::int64_t rows, const DeviceMatrix& w,
                  const Int8Target& target) {
  Int8Operands operands = Int8OperandsOf(x, rows, w, target.form);
  operands.out = target.out;
  operands.bias = target.bias;
  const bool in_one = rows > kMostRowsInTwoSteps && Int8ManyRowsCanServe(operands);
  if (target.form != ProductForm::kSwiGlu || in_one) {
    Run(device, operands);
    return false;
  }
  Int8Operands both = Int8OperandsOf(x, rows, w, ProductForm::kBf16);
  both.out = target.scratch;
  Run(device, both);
  const RowLayout range{rows, operands.shape.gated, operands.shape.out_stride};
  auto* out = static_cast<__nv_bfloat16*>(target.out);
  if (target.codes.codes == nullptr) {
    SwiGluRows(device.stream, target.scratch, w.padded_rows, range, out);
    return false;
  }
  SwiGluAndQuantizeRows(device.stream, target.scratch, w.padded_rows, range, out, target.codes);
  return true;
}

}  // namespace banyan::cuda
