// Calls of cuBLASLt (product_library.h).
#include "kernels/cuda/products/product_library.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

#include "base/error.h"
#include "kernels/device_error.h"

namespace banyan::cuda {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;
constexpr int kAlgorithmsPerQuery = 16;
// Odd counts too: the heuristics offer others there, and the pool grows.
constexpr std::int64_t kAskedRows[] = {
    1,   3,   8,   16,  17,  33,  48,  64,  65,  96,  113,  128,  129,  161,  192,  200,  225,
    256, 257, 320, 384, 417, 512, 513, 641, 768, 900, 1024, 1025, 1536, 1801, 2048, 3001, 4096};

void CheckLt(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const std::string message =
      fmt::format("cublasLt: {}: status {}", what, static_cast<int>(status));
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw Error(ErrorKind::kLimit, message);
  throw DeviceError(message);
}

cudaDataType TypeOf(ProductForm form) { return ElementBytes(form) == 2 ? CUDA_R_16BF : CUDA_R_32F; }

// Layouts of one product in the library's column-major terms: out^T = W^T-stored-transposed x^T.
// They live on the stack: nothing is allocated per call.
struct Layouts {
  Layouts(const ProductShape& shape, ProductForm form) {
    const auto inner = static_cast<std::uint64_t>(shape.inner);
    const auto outputs = static_cast<std::uint64_t>(shape.outputs);
    const auto rows = static_cast<std::uint64_t>(shape.rows);
    const cudaDataType type = TypeOf(form);
    CheckLt(cublasLtMatrixLayoutInit(&w, CUDA_R_16BF, inner, outputs, shape.inner), "layout");
    CheckLt(cublasLtMatrixLayoutInit(&x, CUDA_R_16BF, inner, rows, shape.inner), "layout");
    CheckLt(cublasLtMatrixLayoutInit(&out, type, outputs, rows, shape.out_stride), "layout");
  }
  cublasLtMatrixLayoutOpaque_t w, x, out;
};

template <typename T>
T Attribute(const LibraryAlgorithm& algorithm, cublasLtMatmulAlgoConfigAttributes_t which) {
  T value{};
  size_t written = 0;
  cublasLtMatmulAlgoConfigGetAttribute(&algorithm, which, &value, sizeof(value), &written);
  return value;
}

// In the order of kAlgorithmFields, with their sizes.
struct AlgorithmAttribute {
  cublasLtMatmulAlgoConfigAttributes_t which;
  size_t bytes;
};
constexpr AlgorithmAttribute kAttributes[] = {
    {CUBLASLT_ALGO_CONFIG_ID, 4},
    {CUBLASLT_ALGO_CONFIG_TILE_ID, 4},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, 4},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2},
};
static_assert(std::size(kAttributes) == kAlgorithmFields.size());

}  // namespace

ProductLibrary::ProductLibrary(std::shared_ptr<const Device> device) : device_(std::move(device)) {
  CheckLt(cublasLtCreate(&handle_), "handle");
  const auto set = [](cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                      auto value) {
    CheckLt(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
            "description");
  };
  for (cublasLtMatmulDesc_t* operation : {&operation_, &with_bias_}) {
    CheckLt(cublasLtMatmulDescCreate(operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "description");
    set(*operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  }
  set(with_bias_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(with_bias_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F);
  workspace_ = DeviceMemory(device_, kWorkspaceBytes, "workspace of matrix products");
  int driver = 0;
  Check(cudaDriverGetVersion(&driver), "version of the driver");
  version_ = fmt::format("cublasLt {}, cuda {}, driver {}", cublasLtGetVersion(),
                         cublasLtGetCudartVersion(), driver);
}

ProductLibrary::~ProductLibrary() {
  for (cublasLtMatmulDesc_t operation : {operation_, with_bias_}) {
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

cublasLtMatmulDesc_t ProductLibrary::OperationFor(ProductForm form, const float* bias) {
  if (form != ProductForm::kBias) return operation_;
  CheckLt(cublasLtMatmulDescSetAttribute(with_bias_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                         sizeof(bias)),
          "description");
  return with_bias_;
}

std::vector<LibraryOffer> ProductLibrary::Offers(const ProductShape& shape, ProductForm form,
                                                 Splitting splitting) {
  cublasLtMatmulPreference_t preference = nullptr;
  CheckLt(cublasLtMatmulPreferenceCreate(&preference), "preference");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                        cublasStatus_t (*)(cublasLtMatmulPreference_t)>
      owner(preference, cublasLtMatmulPreferenceDestroy);
  const auto bytes = static_cast<std::uint64_t>(kWorkspaceBytes);
  CheckLt(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                               &bytes, sizeof(bytes)),
          "preference");
  const std::uint32_t schemes = splitting == Splitting::kNone ? CUBLASLT_REDUCTION_SCHEME_NONE
                                                              : CUBLASLT_REDUCTION_SCHEME_MASK;
  CheckLt(cublasLtMatmulPreferenceSetAttribute(
              preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof(schemes)),
          "preference");
  std::vector<LibraryOffer> found;
  for (const std::int64_t rows : kAskedRows) {
    ProductShape asked = shape;
    asked.rows = rows;
    Layouts layouts(asked, form);
    cublasLtMatmulHeuristicResult_t results[kAlgorithmsPerQuery];
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, OperationFor(form, nullptr), &layouts.w, &layouts.x, &layouts.out, &layouts.out,
        preference, kAlgorithmsPerQuery, results, &count);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    for (int i = 0; i < count; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      auto known = std::find_if(found.begin(), found.end(), [&](const LibraryOffer& other) {
        return std::memcmp(&other.algorithm, &results[i].algo, sizeof(LibraryAlgorithm)) == 0;
      });
      if (known == found.end()) known = found.insert(found.end(), {results[i].algo, {}});
      known->proposed_for.push_back(rows);
    }
  }
  return found;
}

std::vector<LibraryAlgorithm> ProductLibrary::InOtherClusters(const LibraryAlgorithm& algorithm) {
  constexpr auto kAttribute = CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  std::vector<LibraryAlgorithm> others;
  for (const std::uint16_t shape :
       {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1,
        CUBLASLT_CLUSTER_SHAPE_2x2x1, CUBLASLT_CLUSTER_SHAPE_4x1x1}) {
    if (shape == Attribute<std::uint16_t>(algorithm, kAttribute)) continue;
    LibraryAlgorithm other = algorithm;
    if (cublasLtMatmulAlgoConfigSetAttribute(&other, kAttribute, &shape, sizeof(shape)) ==
        CUBLAS_STATUS_SUCCESS) {
      others.push_back(other);
    }
  }
  return others;
}

bool ProductLibrary::Supports(const LibraryAlgorithm& algorithm, const ProductOperands& operands) {
  Layouts layouts(operands.shape, operands.form);
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, OperationFor(operands.form, operands.bias), &layouts.w,
                              &layouts.x, &layouts.out, &layouts.out, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(kWorkspaceBytes);
}

bool ProductLibrary::Run(const LibraryAlgorithm& algorithm, const ProductOperands& operands) {
  Layouts layouts(operands.shape, operands.form);
  const float one = 1.0f, kept = operands.form == ProductForm::kAdd ? 1.0f : 0.0f;
  const cublasStatus_t status = cublasLtMatmul(
      handle_, OperationFor(operands.form, operands.bias), &one, operands.w, &layouts.w, operands.x,
      &layouts.x, &kept, operands.out, &layouts.out, operands.out, &layouts.out, &algorithm,
      workspace_.As<void>(), static_cast<size_t>(kWorkspaceBytes), device_->stream);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      status == CUBLAS_STATUS_ARCH_MISMATCH) {
    return false;
  }
  CheckLt(status, "product");
  return true;
}

std::string ProductLibrary::TextOf(const LibraryAlgorithm& algorithm) {
  std::string text;
  for (const std::uint64_t word : algorithm.data) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<LibraryAlgorithm> ProductLibrary::AlgorithmOf(const std::string& text) {
  LibraryAlgorithm algorithm{};
  if (text.size() != std::size(algorithm.data) * 16) return std::nullopt;
  for (size_t i = 0; i < std::size(algorithm.data); ++i) {
    const char* begin = text.data() + i * 16;
    const auto [end, error] = std::from_chars(begin, begin + 16, algorithm.data[i], 16);
    if (error != std::errc() || end != begin + 16) return std::nullopt;
  }
  return algorithm;
}

AlgorithmNumbers ProductLibrary::NumbersOf(const LibraryAlgorithm& algorithm) {
  AlgorithmNumbers numbers;
  for (size_t i = 0; i < std::size(kAttributes); ++i) {
    const auto& [which, bytes] = kAttributes[i];
    numbers.value[i] = bytes == 2
                           ? static_cast<std::int32_t>(Attribute<std::uint16_t>(algorithm, which))
                           : Attribute<std::int32_t>(algorithm, which);
  }
  return numbers;
}

std::optional<LibraryAlgorithm> ProductLibrary::AlgorithmOf(const AlgorithmNumbers& numbers,
                                                            ProductForm form) {
  LibraryAlgorithm algorithm{};
  const cudaDataType out = TypeOf(form);
  if (cublasLtMatmulAlgoInit(handle_, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, out,
                             out, numbers.value[0], &algorithm) != CUBLAS_STATUS_SUCCESS) {
    return std::nullopt;
  }
  for (size_t i = 1; i < std::size(kAttributes); ++i) {  // 0 is the algorithm's own
    const auto& [which, bytes] = kAttributes[i];
    const std::int32_t value = numbers.value[i];
    const auto half = static_cast<std::uint16_t>(value);
    const void* from = bytes == 2 ? static_cast<const void*>(&half) : &value;
    // What it already is need not be something that it can be set to.
    if (NumbersOf(algorithm).value[i] == value) continue;
    if (cublasLtMatmulAlgoConfigSetAttribute(&algorithm, which, from, bytes) !=
        CUBLAS_STATUS_SUCCESS) {
      return std::nullopt;
    }
  }
  return algorithm;
}

}  // namespace banyan::cuda
