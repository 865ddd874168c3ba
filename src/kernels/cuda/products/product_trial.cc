// Comparing and timing one candidate (product_trial.h).
#include "kernels/cuda/products/product_trial.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/products/product_kernels.h"
#include "kernels/cuda/rows/row_kernels.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kPeriod = 31;
// Of weights whose sums cancel. All outputs of most models fit, and they should: a library may
// schedule a product of another number of outputs in another candidate. Of larger ones, as many as
// fit still are some tiles for every multiprocessor.
constexpr std::int64_t kMostCancellingBytes = std::int64_t{256} << 20;
constexpr std::int64_t kCancellingRows = 512;  // whole tiles of any kernel
// A recording goes on for about the time in which the device reads so many times what its cache
// holds, but holds no more products than this: recording takes time too.
constexpr std::int64_t kCachesPerRecording = 12;
constexpr std::int64_t kMostRepetitions = 4;
// A device multiplies about so many pairs while it reads a byte.
constexpr std::int64_t kPairsPerByte = 80;

std::int64_t CacheBytes(int ordinal) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, ordinal), "size of the L2 cache");
  return bytes;
}

std::int64_t WeightBytes(const DeviceMatrix& w) { return w.padded_rows * w.stride * 2; }

}  // namespace

ProductTrial::ProductTrial(std::shared_ptr<const Device> device, const DeviceMatrix& w,
                           ProductForm form, std::int64_t most_rows)
    : device_(std::move(device)), w_(w), form_(form), most_rows_(most_rows) {
  const std::int64_t row_bytes = OutputRows(w, 1).words * 4;
  MakeRows();
  found_ = DeviceMemory(device_, most_rows * row_bytes, "products to compare");
  count_ = DeviceMemory(device_, 16, "a counter");
  const cudaStream_t stream = device_->stream;
  if (form == ProductForm::kAdd) {
    // As float32 the bits are whatever two bf16 values make: of ordinary size as well.
    start_ = DeviceMemory(device_, kPeriod * row_bytes, "products to compare");
    FillRandom(stream, kPeriod * row_bytes / 2, 18, start_.As<__nv_bfloat16>());
  }
  if (form == ProductForm::kBias) {
    bias_ = DeviceMemory(device_, row_bytes, "products to compare");
    FillRandom(stream, row_bytes / 2, 19, bias_.As<__nv_bfloat16>());
  }
  if (form == ProductForm::kSwiGlu) {
    scratch_ = DeviceMemory(device_, std::max(most_rows, kPeriod) * w.padded_rows * 2,
                            "products to compare");
  }
  expected_ = Expected(w);
}

void ProductTrial::MakeRows() {
  const std::int64_t half = w_.stride / 2;
  const DeviceMemory halves(device_, kPeriod * half * 2, "random rows");
  FillRandom(device_->stream, kPeriod * half, 17, halves.As<__nv_bfloat16>());
  rows_ = DeviceMemory(device_, kPeriod * w_.stride * 2, "random rows");
  const auto half_bytes = static_cast<size_t>(half * 2);
  for (const std::int64_t column : {std::int64_t{0}, half}) {
    Check(cudaMemcpy2DAsync(rows_.As<__nv_bfloat16>() + column, 2 * half_bytes, halves.As<void>(),
                            half_bytes, half_bytes, kPeriod, cudaMemcpyDeviceToDevice,
                            device_->stream),
          "random rows");
  }
  std::vector<std::int32_t> index(static_cast<size_t>(most_rows_));
  for (size_t r = 0; r < index.size(); ++r) index[r] = static_cast<std::int32_t>(r % kPeriod);
  row_index_ = DeviceMemory(device_, most_rows_ * 4, "random rows");
  row_index_.CopyFromHost(index.data(), most_rows_ * 4);
  x_ = DeviceMemory(device_, most_rows_ * w_.stride * 2, "random rows");
  RunNeighbour();
}

void ProductTrial::MakeCancelling() {
  if (cancelling_.memory.bytes() > 0) return;
  const std::int64_t fitting =
      kMostCancellingBytes / (w_.stride * 2) / kCancellingRows * kCancellingRows;
  try {
    MakeCancelling(std::max(fitting, kCancellingRows));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
    MakeCancelling(kCancellingRows);  // some outputs are better than none
  }
}

void ProductTrial::MakeCancelling(std::int64_t most_outputs) {
  const bool all = w_.padded_rows <= most_outputs;
  cancelling_.rows = all ? w_.rows : most_outputs;
  cancelling_.padded_rows = all ? w_.padded_rows : cancelling_.rows;
  cancelling_.columns = cancelling_.stride = w_.stride;
  cancelling_.form = WeightForm::kBF16;
  cancelling_.fresh = w_.fresh;
  cancelling_.memory = DeviceMemory(device_, WeightBytes(cancelling_), "weights to compare by");
  const ProductShape shape = OperandsFor(cancelling_, 1).shape;
  FillCancelling(device_->stream, shape, 20, cancelling_.memory.As<__nv_bfloat16>());
  expected_cancelling_ = Expected(cancelling_);
}

DeviceMemory ProductTrial::Expected(const DeviceMatrix& w) {
  const WordRows range = OutputRows(w, kPeriod);
  DeviceMemory expected(device_, range.rows * range.words * 4, "products to compare");
  ResetOutput(range, expected);
  ProductOperands operands = OperandsFor(w, kPeriod);
  operands.x = rows_.As<__nv_bfloat16>();
  operands.out = expected.As<void>();
  MultiplyBF16(device_->stream, operands);
  return expected;
}

WordRows ProductTrial::OutputRows(const DeviceMatrix& w, std::int64_t rows) const {
  return {rows, OutputStride(w, form_) * ElementBytes(form_) / 4};
}

ProductOperands ProductTrial::OperandsFor(const DeviceMatrix& w, std::int64_t rows) const {
  ProductOperands operands = OperandsOf(x_.As<__nv_bfloat16>(), rows, w, form_);
  operands.out = found_.As<void>();
  operands.bias = bias_.As<float>();
  operands.scratch = scratch_.As<__nv_bfloat16>();
  return operands;
}

// What is added to; otherwise a pattern that no product leaves, which must stay between the rows of
// outputs.
void ProductTrial::ResetOutput(const WordRows& range, const DeviceMemory& out) {
  if (form_ == ProductForm::kAdd) {
    RepeatRows(device_->stream, start_.As<void>(), range, kPeriod, out.As<void>());
  } else {
    const auto bytes = static_cast<size_t>(range.rows * range.words * 4);
    Check(cudaMemsetAsync(out.As<void>(), 0xff, bytes, device_->stream), "clear");
  }
}

bool ProductTrial::HasOurBits(const Candidate& candidate, std::int64_t rows) {
  BANYAN_CHECK(rows <= most_rows_);
  if (!Equals(candidate, w_, rows, expected_)) return false;
  if (ElementBytes(form_) == 4) return true;
  MakeCancelling();
  return Equals(candidate, cancelling_, rows, expected_cancelling_);
}

bool ProductTrial::Equals(const Candidate& candidate, const DeviceMatrix& w, std::int64_t rows,
                          const DeviceMemory& expected) {
  const WordRows range = OutputRows(w, rows);
  ResetOutput(range, found_);
  count_.Zero();
  if (!candidate(OperandsFor(w, rows))) return false;
  CountDifferences(device_->stream, found_.As<void>(), expected.As<void>(), range, kPeriod,
                   count_.As<unsigned long long>());
  unsigned long long count = 0;
  Check(cudaMemcpyAsync(&count, count_.As<void>(), 8, cudaMemcpyDeviceToHost, device_->stream),
        "comparison of bits");
  device_->Synchronize();
  return count == 0;
}

void ProductTrial::MakeCopies() {
  if (others_.bytes() > 0) return;
  const std::int64_t cache = CacheBytes(device_->ordinal), bytes = WeightBytes(w_);
  const std::int64_t work =
      std::max(bytes, most_rows_ * w_.padded_rows * w_.stride / kPairsPerByte);
  repetitions_ = static_cast<int>(
      std::clamp<std::int64_t>(kCachesPerRecording * cache / work, 1, kMostRepetitions));
  if (bytes >= 2 * cache) {  // they displace themselves
    others_ = DeviceMemory(device_, 2 * cache, "flushing the cache");
    return others_.Zero();
  }
  copies_ = (2 * cache + bytes - 1) / bytes;
  others_ = DeviceMemory(device_, copies_ * bytes, "copies of weights");
  for (std::int64_t i = 0; i < copies_; ++i) {
    Check(cudaMemcpyAsync(others_.As<std::byte>() + i * bytes, w_.memory.As<void>(),
                          static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, device_->stream),
          "copies of weights");
  }
}

void ProductTrial::RunNeighbour() {
  GatherRows(device_->stream, row_index_.As<std::int32_t>(), rows_.As<__nv_bfloat16>(),
             {most_rows_, w_.stride, w_.stride}, x_.As<__nv_bfloat16>());
}

std::unique_ptr<LaunchGraph> ProductTrial::Record(const Candidate& candidate) {
  ProductOperands operands = OperandsFor(most_rows_);
  bool willing = true;
  const auto launches = [&] {
    RunNeighbour();
    for (std::int64_t i = 0; i < repetitions_ && willing; ++i) {
      const std::int64_t copy = i % (copies_ + 1);
      operands.w = copy == 0
                       ? w_.memory.As<__nv_bfloat16>()
                       : others_.As<__nv_bfloat16>() + (copy - 1) * w_.padded_rows * w_.stride;
      willing = candidate(operands);
      RunNeighbour();
    }
  };
  try {
    auto graph = std::make_unique<LaunchGraph>(*device_, launches);
    return willing ? std::move(graph) : nullptr;
  } catch (const Error&) {
    return nullptr;  // a step with it would not be recorded either
  }
}

double ProductTrial::Seconds(const Candidate& candidate, int runs, double enough) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  MakeCopies();
  if (!candidate(OperandsFor(most_rows_)))
    return kNever;  // this also loads its code: not to be recorded
  const std::unique_ptr<LaunchGraph> graph = Record(candidate);
  if (graph == nullptr) return kNever;
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    // While this goes on, the host hands over the launch.
    ReadThrough(device_->stream, others_.As<void>(), others_.bytes() / 16 * 16);
    seconds.push_back(graph->Seconds(1) / repetitions_);
    if (seconds.back() > enough) break;
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[(seconds.size() - 1) / 2];
}

}  // namespace banyan::cuda
