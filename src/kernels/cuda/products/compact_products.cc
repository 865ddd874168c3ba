#include "kernels/cuda/products/compact_products.h"
#include "kernels/cuda/products/compact_kernel.h"

#include <algorithm>

#include "kernels/cuda/products/product_operands.h"

namespace banyan::cuda {
namespace {

// Reading codes of about five bits for every 32 rows costs less than writing and reading 16 bits
// once, up to about this many rows.
constexpr std::int64_t kMostRowsFromCodes = 128;
static_assert(kMostRowsFromCodes >= kMostFewRows,
              "products of few rows fetch weights early, before a scratch of them is written");
// Larger matrices (the logits of a large vocabulary) are not worth a scratch of their own.
constexpr std::int64_t kMostScratchBytes = std::int64_t{1} << 30;

std::int64_t UnpackedBytes(const DeviceMatrix& w) { return w.padded_rows * w.stride * 2; }

// Gate and up of one form in whole tiles.
bool GatesInOneStep(const DeviceMatrix& w) {
  return w.compact.size() == 1 && w.rows % (2 * kTileRows) == 0 &&
         CompactRingCanServe(w.compact.front());
}

}  // namespace

void CompactProducts::Reserve(const DeviceMatrix& w) {
  const std::int64_t bytes = UnpackedBytes(w);
  if (bytes > kMostScratchBytes || bytes <= scratch_.memory.bytes()) return;
  scratch_.memory = {};
  scratch_.memory = DeviceMemory(device_, bytes, "unpacked weights");
}

bool CompactProducts::Unpacks(const DeviceMatrix& w, std::int64_t rows) const {
  return rows > kMostRowsFromCodes && UnpackedBytes(w) <= scratch_.memory.bytes();
}

void CompactProducts::Unpack(const DeviceMatrix& w) {
  scratch_.form = WeightForm::kBF16;
  scratch_.rows = w.rows;
  scratch_.columns = w.columns;
  scratch_.stride = w.stride;
  scratch_.padded_rows = w.padded_rows;
  scratch_.fresh = true;
  for (const CompactRows& rows : w.compact) {
    UnpackRows(device_->stream, rows, w.stride,
               scratch_.memory.As<__nv_bfloat16>() + rows.first_row * w.stride);
  }
}

void CompactProducts::Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                               const Products::Target& target) {
  if (Unpacks(w, rows)) {
    Unpack(w);
    return products_.Multiply(x, rows, scratch_, target);
  }
  if (target.form == ProductForm::kSwiGlu && !GatesInOneStep(w)) {
    Multiply(x, rows, w, {ProductForm::kBf16, target.scratch});
    ProductOperands gated = OperandsOf(x, rows, w, target.form);
    gated.out = target.out;
    gated.scratch = target.scratch;
    return ApplySwiGlu(device_->stream, gated);
  }
  for (const CompactRows& part : w.compact) {
    const bool ring = CompactRingCanServe(part);
    const std::int64_t most = ring ? kMostRingRows : kMostCompactRows;
    for (std::int64_t begin = 0; begin < rows; begin += most) {
      ProductOperands operands;
      operands.x = x + begin * w.stride;
      operands.form = target.form;
      operands.bias = target.bias;
      const std::int64_t stride = OutputStride(w, target.form);
      operands.out =
          static_cast<std::byte*>(target.out) + begin * stride * ElementBytes(target.form);
      operands.shape = {std::min(most, rows - begin), part.padded_rows, w.stride, stride};
      (ring ? MultiplyCompactRing : MultiplyCompact)(device_->stream, part, operands);
    }
  }
}

}  // namespace banyan::cuda
