// Which form weights get, and which products and embedding read it (weight_forms.h).
#include "kernels/cuda/products/weight_forms.h"

#include <cctype>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "kernels/cuda/products/int8_products.h"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/cuda/rows/tensor_memory.h"
#include "kernels/cuda/weights/device_matrix.h"

namespace banyan::cuda {
namespace {

const DeviceMatrix& OnDevice(const Matrix& matrix) {
  return static_cast<const DeviceMatrix&>(matrix);
}

// ~/.cache/banyan/cuda/NVIDIA-H200-sm-90.txt
std::filesystem::path FileOfDecisions(const std::string& device) {
  const std::filesystem::path cache = CacheDirectory();
  if (cache.empty()) return {};
  std::string name;
  for (const char c : device) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain || !name.ends_with('-')) name += plain ? c : '-';
  }
  return cache / "cuda" / (name + ".txt");
}

}  // namespace

WeightForms::WeightForms(std::shared_ptr<const Device> device, const KernelOptions& options,
                         Staging& staging)
    : device_(std::move(device)),
      mixed_(options.precision == Precision::kMixed),
      int8_(options.eight_bit_products),
      residency_(options.weights),
      quantised_(options.weights == WeightResidency::kCompact),
      staging_(staging),
      pool_(options.threads),
      loader_(device_, pool_, staging_),
      products_(device_,
                {options.fast, FileOfDecisions(device_->name), Deciding::kSoon, options.of_shards}),
      quantised_products_(device_, products_) {}

void WeightForms::Expect(std::int64_t weights) {
  if (residency_ != WeightResidency::kAuto) return;
  quantised_ = 2 * weights > device_->FreeBytes() / 2;
}

std::shared_ptr<const Matrix> WeightForms::Load(const MatrixSource& source) {
  auto form = WeightForm::kF32;
  if (mixed_) form = quantised_ ? WeightForm::kQuantised : WeightForm::kBF16;
  auto matrix = loader_.Load(source, form);
  if (matrix->form == WeightForm::kQuantised) quantised_products_.Reserve(*matrix);
  return matrix;
}

std::shared_ptr<const Matrix> WeightForms::MakeRandom(const RandomWeights& weights) {
  return MakeRandomMatrix(device_, weights, mixed_ ? WeightForm::kBF16 : WeightForm::kF32);
}

std::shared_ptr<const Matrix> WeightForms::ForProducts(std::shared_ptr<const Matrix> matrix) {
  if (!int8_ || OnDevice(*matrix).form == WeightForm::kInt8) return matrix;
  if (auto int8 = QuantizeMatrix(device_, OnDevice(*matrix))) return int8;
  return matrix;
}

std::shared_ptr<const Vector> WeightForms::LoadVector(std::span<const float> values) {
  auto vector = std::make_shared<DeviceVector>();
  vector->size = static_cast<std::int64_t>(values.size());
  const auto bytes = static_cast<std::int64_t>(values.size_bytes());
  vector->memory = DeviceMemory(device_, Stride(vector->size) * 4, "parameters");
  vector->memory.Zero();
  std::memcpy(staging_.Reserve(bytes), values.data(), values.size_bytes());
  staging_.Send(vector->memory.As<void>(), bytes);
  return vector;
}

void WeightForms::Embed(const std::int32_t* tokens, const Matrix& table, std::int64_t first,
                        Tensor& out) {
  const DeviceMatrix& matrix = OnDevice(table);
  BANYAN_CHECK(matrix.columns == out.columns && matrix.form != WeightForm::kInt8);
  const RowLayout range{out.rows, out.columns, Stride(out.columns)};
  const cudaStream_t stream = device_->stream;
  float* target = Float32ForWriting(out);
  if (matrix.form == WeightForm::kF32) {
    EmbedRows(stream, tokens, TableRows<float>{matrix.memory.As<float>(), first, matrix.rows},
              range, target);
  } else if (matrix.form == WeightForm::kQuantised) {
    for (QuantisedRows rows : matrix.quantised) {
      rows.first_row += first;
      EmbedQuantisedRows(stream, tokens, rows, range, target);
    }
  } else {
    const TableRows<__nv_bfloat16> own{matrix.memory.As<__nv_bfloat16>(), first, matrix.rows};
    EmbedRows(stream, tokens, own, range, target);
  }
}

void WeightForms::Multiply(const Tensor& x, const Matrix& w, const Products::Target& target,
                           const Tensor& out) {
  const std::int64_t columns = target.form == ProductForm::kSwiGlu ? w.rows / 2 : w.rows;
  BANYAN_CHECK(x.columns == w.columns && out.columns == columns && x.rows == out.rows);
  if (x.rows == 0) return;
  const DeviceMatrix& matrix = OnDevice(w);
  if (matrix.form == WeightForm::kInt8) {
    Int8Target int8{target.form, target.out, target.bias, target.scratch, {}};
    if (target.form == ProductForm::kSwiGlu) int8.codes = CodesForWriting(out);
    const bool has_codes = MultiplyInt8(*device_, Codes(x), x.rows, matrix, int8);
    if (target.form == ProductForm::kSwiGlu && !has_codes) DropCodes(out);
  } else if (mixed_) {
    const __nv_bfloat16* source = Bf16(x);
    if (matrix.form == WeightForm::kQuantised) {
      quantised_products_.Multiply(source, x.rows, matrix, target);
    } else {
      products_.Multiply(source, x.rows, matrix, target);
    }
  } else {
    const float* source = Float32(x);
    const ProductShape shape{x.rows, w.rows, matrix.stride, Stride(out.columns)};
    MultiplyF32(device_->stream, source, matrix.memory.As<float>(), shape, target.form,
                static_cast<float*>(target.out));
  }
}

}  // namespace banyan::cuda
