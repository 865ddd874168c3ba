#include "kernels/cuda/products.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
// Below this many weights a launch costs more than the product: our own kernel serves.
constexpr std::int64_t kSmallMatrix = std::int64_t{1} << 18;
constexpr std::int64_t kLeastRange = 16, kMostRange = 4096;
constexpr int kAlgorithmsPerQuery = 12;

void CheckLt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const auto kind = status == CUBLAS_STATUS_ALLOC_FAILED ? ErrorKind::kLimit : ErrorKind::kIo;
  Throw(kind, "cublasLt: {}: status {}", what, static_cast<int>(status));
}

// Row counts come in ranges (top / 2, top], top a power of two from 16 on; the last has no end.
std::int64_t RangeTop(std::int64_t rows) {
  std::int64_t top = kLeastRange;
  while (top < rows && top < kMostRange) top *= 2;
  return top;
}

}  // namespace

// Layouts of one product in the library's column-major terms: out^T = W^T-stored-transposed x^T.
class Products::Descriptors {
 public:
  explicit Descriptors(const ProductShape& shape) {
    const auto inner = static_cast<std::uint64_t>(shape.inner);
    const auto outputs = static_cast<std::uint64_t>(shape.out_stride);
    const auto rows = static_cast<std::uint64_t>(shape.rows);
    CheckLt(cublasLtMatrixLayoutCreate(&w, CUDA_R_16BF, inner, outputs, shape.inner), "layout");
    CheckLt(cublasLtMatrixLayoutCreate(&x, CUDA_R_16BF, inner, rows, shape.inner), "layout");
    CheckLt(cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, outputs, rows, shape.out_stride),
            "layout");
  }
  ~Descriptors() {
    for (cublasLtMatrixLayout_t layout : {w, x, out}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  cublasLtMatrixLayout_t w = nullptr, x = nullptr, out = nullptr;
};

Products::Products(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

Products::~Products() {
  if (operation_ != nullptr) cublasLtMatmulDescDestroy(operation_);
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

void Products::Multiply(const __nv_bfloat16* x, std::int64_t rows, const DeviceMatrix& w,
                        float* out) {
  const Operands operands{
      x, w.memory.As<__nv_bfloat16>(), {rows, w.padded_rows, w.stride, w.padded_rows}, out};
  if (w.padded_rows * w.stride >= kSmallMatrix && Run(Decide(rows, w), operands)) return;
  MultiplyBF16(device_->stream, x, operands.w, operands.shape, out);
}

const Products::Choice& Products::Decide(std::int64_t rows, const DeviceMatrix& w) {
  const std::int64_t top = RangeTop(rows);
  const auto key = std::tuple(w.padded_rows, w.stride, top);
  const auto it = choices_.find(key);
  if (it != choices_.end()) return it->second;
  if (handle_ == nullptr) {
    CheckLt(cublasLtCreate(&handle_), "handle");
    CheckLt(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    CheckLt(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                           sizeof(transposed)),
            "description");
    workspace_ = DeviceMemory(device_, kWorkspaceBytes, "workspace of matrix products");
  }
  Choice choice;
  try {
    choice = Select(top == kLeastRange ? 1 : top / 2 + 1, top, w);
  } catch (const Error& error) {
    // No room to compare: our own kernel has the right bits.
    if (error.kind() != ErrorKind::kLimit) throw;
  }
  ++census_.decisions;
  if (!choice) ++census_.own;
  return choices_.emplace(key, choice).first->second;
}

std::vector<cublasLtMatmulAlgo_t> Products::Candidates(std::int64_t least_rows,
                                                       std::int64_t most_rows,
                                                       const ProductShape& shape) {
  cublasLtMatmulPreference_t preference = nullptr;
  CheckLt(cublasLtMatmulPreferenceCreate(&preference), "preference");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owner(preference, cublasLtMatmulPreferenceDestroy);
  const auto bytes = static_cast<std::uint64_t>(kWorkspaceBytes);
  const std::uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
  CheckLt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof(bytes)),
          "preference");
  CheckLt(cublasLtMatmulPreferenceSetAttribute(
              preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &no_split, sizeof(no_split)),
          "preference");
  std::vector<cublasLtMatmulAlgo_t> found;
  // Odd counts too: the heuristics offer others there, and the pool grows.
  for (const std::int64_t rows :
       {most_rows, (least_rows + most_rows) / 2 | 1, least_rows, std::int64_t{513}}) {
    ProductShape asked = shape;
    asked.rows = rows;
    const Descriptors layouts(asked);
    cublasLtMatmulHeuristicResult_t results[kAlgorithmsPerQuery];
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, operation_, layouts.w, layouts.x, layouts.out, layouts.out, preference,
        kAlgorithmsPerQuery, results, &count);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    for (int i = 0; i < count; ++i) {
      const bool known = std::any_of(found.begin(), found.end(), [&](const auto& other) {
        return std::memcmp(&other, &results[i].algo, sizeof(other)) == 0;
      });
      if (results[i].state == CUBLAS_STATUS_SUCCESS && !known) found.push_back(results[i].algo);
    }
  }
  return found;
}

Products::Choice Products::Select(std::int64_t least_rows, std::int64_t most_rows,
                                  const DeviceMatrix& w) {
  const ProductShape shape{most_rows, w.padded_rows, w.stride, w.padded_rows};
  const std::int64_t outputs = most_rows * w.padded_rows;
  const DeviceMemory x(device_, most_rows * w.stride * 2, "random rows");
  const DeviceMemory expected(device_, outputs * 4, "products to compare");
  DeviceMemory found(device_, outputs * 4, "products to compare");
  DeviceMemory differences(device_, 8, "a counter");
  FillRandom(device_->stream, most_rows * w.stride, 17, x.As<__nv_bfloat16>());
  const auto* weights = w.memory.As<__nv_bfloat16>();
  MultiplyBF16(device_->stream, x.As<__nv_bfloat16>(), weights, shape, expected.As<float>());

  const auto has_our_bits = [&](const Choice& choice) {
    // A row does not depend on the others, so the first rows of `expected` serve every count.
    for (const std::int64_t rows : {most_rows, least_rows}) {
      ProductShape some = shape;
      some.rows = rows;
      differences.Zero();
      found.Zero();
      if (!Run(choice, {x.As<__nv_bfloat16>(), weights, some, found.As<float>()})) return false;
      CountDifferences(device_->stream, found.As<float>(), expected.As<float>(), some,
                       differences.As<unsigned long long>());
      unsigned long long count = 0;
      Check(cudaMemcpyAsync(&count, differences.As<void>(), 8, cudaMemcpyDeviceToHost,
                            device_->stream),
            "comparison of bits");
      device_->Synchronize();
      if (count != 0) return false;
    }
    return true;
  };
  const Operands timed{x.As<__nv_bfloat16>(), weights, shape, found.As<float>()};
  Choice best;
  double best_seconds = most_rows <= 64 ? Seconds({}, timed) : 1e30;
  for (const cublasLtMatmulAlgo_t& algorithm : Candidates(least_rows, most_rows, shape)) {
    ++census_.candidates;
    if (!has_our_bits(algorithm)) continue;
    ++census_.admitted;
    const double seconds = Seconds(algorithm, timed);
    if (seconds < best_seconds) {
      best = algorithm;
      best_seconds = seconds;
    }
  }
  return best;
}

bool Products::Run(const Choice& choice, const Operands& operands) {
  if (!choice) {
    MultiplyBF16(device_->stream, operands.x, operands.w, operands.shape, operands.out);
    return true;
  }
  const Descriptors layouts(operands.shape);
  const float one = 1.0f, zero = 0.0f;
  const cublasStatus_t status =
      cublasLtMatmul(handle_, operation_, &one, operands.w, layouts.w, operands.x, layouts.x, &zero,
                     operands.out, layouts.out, operands.out, layouts.out, &*choice,
                     workspace_.As<void>(), static_cast<size_t>(kWorkspaceBytes), device_->stream);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  CheckLt(status, "product");
  return true;
}

double Products::Seconds(const Choice& choice, const Operands& operands) {
  constexpr int kRuns = 4;
  Event start, end;
  Run(choice, operands);
  start.Record(device_->stream);
  for (int i = 0; i < kRuns; ++i) Run(choice, operands);
  end.Record(device_->stream);
  return end.SecondsSince(start) / kRuns;
}

}  // namespace banyan::cuda
