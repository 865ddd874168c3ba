#include "kernels/cuda/product_trial.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/product_operands.h"
#include "kernels/cuda/row_kernels.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kPeriod = 31;

std::int64_t CacheBytes(int ordinal) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, ordinal), "size of the L2 cache");
  return bytes;
}

}  // namespace

ProductTrial::ProductTrial(std::shared_ptr<const Device> device, const DeviceMatrix& w,
                           ProductForm form, std::int64_t most_rows)
    : device_(std::move(device)), w_(w), form_(form), most_rows_(most_rows) {
  const std::int64_t row_bytes = OutputStride(w, form) * ElementBytes(form);
  x_ = DeviceMemory(device_, most_rows * w.stride * 2, "random rows");
  expected_ = DeviceMemory(device_, kPeriod * row_bytes, "products to compare");
  found_ = DeviceMemory(device_, most_rows * row_bytes, "products to compare");
  count_ = DeviceMemory(device_, 16, "a counter");
  neighbour_ = DeviceMemory(device_, w.stride * 4, "a row");
  const cudaStream_t stream = device_->stream;
  const DeviceMemory rows(device_, kPeriod * w.stride * 2, "random rows");
  FillRandom(stream, kPeriod * w.stride, 17, rows.As<__nv_bfloat16>());
  RepeatRows(stream, rows.As<void>(), {most_rows, w.stride / 2}, kPeriod, x_.As<void>());
  if (form == ProductForm::kAdd) {
    // As float32 the bits are whatever two bf16 values make: of ordinary size as well.
    start_ = DeviceMemory(device_, kPeriod * row_bytes, "products to compare");
    FillRandom(stream, kPeriod * row_bytes / 2, 18, start_.As<__nv_bfloat16>());
    RepeatRows(stream, start_.As<void>(), OutputRows(kPeriod), kPeriod, expected_.As<void>());
  }
  if (form == ProductForm::kBias) {
    bias_ = DeviceMemory(device_, row_bytes, "products to compare");
    FillRandom(stream, row_bytes / 2, 19, bias_.As<__nv_bfloat16>());
  }
  if (form == ProductForm::kSwiGlu) {
    scratch_ = DeviceMemory(device_, std::max(most_rows, kPeriod) * w.padded_rows * 2,
                            "products to compare");
    // What stands between the rows of outputs is nobody's to write.
    Check(
        cudaMemsetAsync(expected_.As<void>(), 0xff, static_cast<size_t>(expected_.bytes()), stream),
        "clear");
  }
  ProductOperands reference = OperandsFor(kPeriod);
  reference.x = rows.As<__nv_bfloat16>();
  reference.out = expected_.As<void>();
  MultiplyBF16(stream, reference);
}

WordRows ProductTrial::OutputRows(std::int64_t rows) const {
  return {rows, OutputStride(w_, form_) * ElementBytes(form_) / 4};
}

ProductOperands ProductTrial::OperandsFor(std::int64_t rows) const {
  ProductOperands operands = OperandsOf(x_.As<__nv_bfloat16>(), rows, w_, form_);
  operands.out = found_.As<void>();
  operands.bias = bias_.As<float>();
  operands.scratch = scratch_.As<__nv_bfloat16>();
  return operands;
}

void ProductTrial::ResetOutput(std::int64_t rows) {
  if (form_ == ProductForm::kAdd) {
    RepeatRows(device_->stream, start_.As<void>(), OutputRows(rows), kPeriod, found_.As<void>());
  } else {
    const auto bytes = static_cast<size_t>(OutputRows(rows).words) * static_cast<size_t>(rows) * 4;
    Check(cudaMemsetAsync(found_.As<void>(), 0xff, bytes, device_->stream), "clear");
  }
}

bool ProductTrial::HasOurBits(const Way& way, std::int64_t rows) {
  BANYAN_CHECK(rows <= most_rows_);
  ResetOutput(rows);
  count_.Zero();
  if (!way(OperandsFor(rows))) return false;
  CountDifferences(device_->stream, found_.As<void>(), expected_.As<void>(), OutputRows(rows),
                   kPeriod, count_.As<unsigned long long>());
  unsigned long long count = 0;
  Check(cudaMemcpyAsync(&count, count_.As<void>(), 8, cudaMemcpyDeviceToHost, device_->stream),
        "comparison of bits");
  device_->Synchronize();
  return count == 0;
}

void ProductTrial::RunNeighbour() {
  WidenRows(device_->stream, x_.As<__nv_bfloat16>(), {1, w_.stride, w_.stride},
            neighbour_.As<float>());
}

double ProductTrial::Seconds(const Way& way, int runs, double enough) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const ProductOperands operands = OperandsFor(most_rows_);
  if (!way(operands)) return kNever;  // the first run also loads its code
  if (other_.bytes() == 0) {
    other_ = DeviceMemory(device_, 2 * CacheBytes(device_->ordinal), "flushing the cache");
    other_.Zero();
  }
  Event start, end;
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    ReadThrough(device_->stream, other_.As<void>(), other_.bytes() / 16 * 16);
    ReadThrough(device_->stream, x_.As<void>(), x_.bytes() / 16 * 16);
    start.Record(device_->stream);
    RunNeighbour();
    if (!way(operands)) return kNever;
    RunNeighbour();
    end.Record(device_->stream);
    seconds.push_back(end.SecondsSince(start));
    if (seconds.back() > enough) break;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 2];
}

}  // namespace banyan::cuda
