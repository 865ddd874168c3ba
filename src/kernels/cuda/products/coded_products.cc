#include "kernels/cuda/products/coded_products.h"

#include "kernels/cuda/products/product_operands.h"
#include "kernels/cuda/rows/tensor_memory.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kScaleAlignment = 256;
// With more rows SwiGLU is faster in one step (at 32 rows and 12288 gates 28 us instead of 36).
constexpr std::int64_t kMostRowsInTwoSteps = 16;

void Run(const Device& device, const CodedOperands& operands) {
  if (CodedFewRowsCanServe(operands)) {
    // With more rows there is more to bring for each weight.
    const RingSize ring = operands.shape.rows > 16 ? RingSize::kMost : RingSize::kHalf;
    return MultiplyCodedFewRows(device.stream, operands, ring);
  }
  if (CodedManyRowsCanServe(operands)) {
    return MultiplyCodedManyRows(device.stream, operands,
                                 CodedTileFor(operands, device.multiprocessors));
  }
  MultiplyCodedPlain(device.stream, operands);
}

}  // namespace

std::shared_ptr<const DeviceMatrix> CodeMatrix(const std::shared_ptr<const Device>& device,
                                               const DeviceMatrix& matrix) {
  const std::int64_t stride = CodeStride(matrix.columns);
  if (stride >= kMostCodedInner || matrix.form == WeightForm::kF32) return nullptr;
  DeviceMemory unpacked;
  const auto* rows = matrix.memory.As<__nv_bfloat16>();
  if (matrix.form == WeightForm::kCompact) {
    unpacked = DeviceMemory(device, matrix.padded_rows * matrix.stride * 2, "unpacked weights");
    unpacked.Zero();
    for (const CompactRows& part : matrix.compact) {
      UnpackRows(device->stream, part, matrix.stride,
                 unpacked.As<__nv_bfloat16>() + part.first_row * matrix.stride);
    }
    rows = unpacked.As<__nv_bfloat16>();
  }
  auto coded = std::make_shared<DeviceMatrix>();
  coded->rows = matrix.rows;
  coded->columns = matrix.columns;
  coded->padded_rows = matrix.padded_rows;
  coded->form = WeightForm::kCodes;
  coded->stride = stride;
  const std::int64_t codes =
      (coded->padded_rows * stride + kScaleAlignment - 1) / kScaleAlignment * kScaleAlignment;
  coded->bytes = codes + coded->padded_rows * 4;
  coded->memory = DeviceMemory(device, coded->bytes, "weights");
  coded->scales = reinterpret_cast<float*>(coded->memory.As<std::int8_t>() + codes);
  CodeRows(device->stream, rows, {matrix.padded_rows, matrix.columns, matrix.stride},
           CodeReader::kLater, {coded->memory.As<std::int8_t>(), coded->scales});
  return coded;
}

CodedOperands CodedOperandsOf(const RowCodes& x, std::int64_t rows, const DeviceMatrix& w,
                              ProductForm form) {
  CodedOperands operands;
  operands.x = x.codes;
  operands.x_scales = x.scales;
  operands.w = w.memory.As<std::int8_t>();
  operands.w_scales = w.scales;
  operands.shape = {rows, w.padded_rows, w.stride, OutputStride(w, form), 0};
  if (form == ProductForm::kSwiGlu) operands.shape.gated = w.rows / 2;
  operands.form = form;
  return operands;
}

bool MultiplyCoded(const Device& device, const RowCodes& x, std::int64_t rows,
                   const DeviceMatrix& w, const CodedTarget& target) {
  CodedOperands operands = CodedOperandsOf(x, rows, w, target.form);
  operands.out = target.out;
  operands.bias = target.bias;
  const bool in_one = rows > kMostRowsInTwoSteps && CodedManyRowsCanServe(operands);
  if (target.form != ProductForm::kSwiGlu || in_one) {
    Run(device, operands);
    return false;
  }
  CodedOperands both = CodedOperandsOf(x, rows, w, ProductForm::kBf16);
  both.out = target.scratch;
  Run(device, both);
  const RowLayout range{rows, operands.shape.gated, operands.shape.out_stride};
  auto* out = static_cast<__nv_bfloat16*>(target.out);
  if (target.codes.codes == nullptr) {
    SwiGluRows(device.stream, target.scratch, w.padded_rows, range, out);
    return false;
  }
  SwiGluAndCodeRows(device.stream, target.scratch, w.padded_rows, range, out, target.codes);
  return true;
}

}  // namespace banyan::cuda
