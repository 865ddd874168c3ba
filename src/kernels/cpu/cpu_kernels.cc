#include "kernels/cpu/cpu_kernels.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/kv_pages.h"
#include "kernels/cpu/machine_rates.h"

namespace banyan {

std::string CpuKernels::name() const {
  return fmt::format("cpu ({}, {} thread{})", path_.name, pool_.size(),
                     pool_.size() == 1 ? "" : "s");
}

MachineRates CpuKernels::MeasureRates() {
  return MeasureCpuRates(path_, has_codes_, LoadedBytes(), pool_);
}

Tensor CpuKernels::NewTensor(std::int64_t rows, std::int64_t columns) {
  const size_t bytes = static_cast<size_t>(rows * Stride(columns)) * sizeof(float);
  constexpr size_t kAlignment = 64;
  const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    Throw(ErrorKind::kLimit, "no memory for activations: {} bytes", rounded);
  }
  return Tensor{std::shared_ptr<void>(memory, std::free), rows, columns};
}

// All groups begin where the memory of the largest does.
std::vector<std::vector<Tensor>> CpuKernels::NewTensorGroups(std::span<const TensorGroup> groups) {
  const auto floats = [](const TensorShape& shape) { return shape.rows * Stride(shape.columns); };
  std::int64_t most = 0;
  for (const TensorGroup& group : groups) {
    std::int64_t needed = 0;
    for (const TensorShape& shape : group) needed += floats(shape);
    most = std::max(most, needed);
  }
  const Tensor all = NewTensor(1, most);
  std::vector<std::vector<Tensor>> made;
  for (const TensorGroup& group : groups) {
    std::vector<Tensor>& tensors = made.emplace_back();
    float* next = Data(all);
    for (const TensorShape& shape : group) {
      tensors.push_back({std::shared_ptr<void>(all.memory, next), shape.rows, shape.columns});
      next += floats(shape);
    }
  }
  return made;
}

std::shared_ptr<const Matrix> CpuKernels::LoadMatrix(std::span<const HostTensor* const> parts,
                                                     std::span<const std::int32_t> row_order) {
  auto matrix = PackMatrix(
      parts, row_order,
      {options_.precision == Precision::kMixed, path_.integer.interleave, path_.integer.bias},
      pool_);
  has_codes_ = has_codes_ || matrix->has_codes();
  std::erase_if(loaded_, [](const auto& loaded) { return loaded.expired(); });
  loaded_.push_back(matrix);
  return matrix;
}

std::shared_ptr<const Vector> CpuKernels::LoadVector(std::span<const float> values) {
  auto vector = std::make_shared<FloatVector>();
  vector->values.assign(values.begin(), values.end());
  vector->size = static_cast<std::int64_t>(values.size());
  return vector;
}

std::shared_ptr<KvMemory> CpuKernels::NewKvMemory(const KvShape& shape, int pages) {
  return std::make_shared<KvPages>(shape, pages, options_.kv_type);
}

void CpuKernels::CopyPages(std::span<const PageCopy> copies, KvMemory& kv) {
  auto& pages = static_cast<KvPages&>(kv);
  pool_.ForEach(static_cast<std::int64_t>(copies.size()),
                [&](std::int64_t i, int) { pages.Copy(copies[static_cast<size_t>(i)]); });
}

void CpuKernels::ReadPages(const KvMemory& kv, std::span<const std::int32_t> pages,
                           std::span<std::byte> bytes) {
  const auto& memory = static_cast<const KvPages&>(kv);
  const auto count = static_cast<std::int64_t>(pages.size());
  pool_.ForEach(count, [&](std::int64_t i, int) {
    memory.Read(pages[static_cast<size_t>(i)], {i, count}, bytes);
  });
}

void CpuKernels::WritePages(std::span<const std::byte> bytes, std::span<const std::int32_t> pages,
                            KvMemory& kv) {
  auto& memory = static_cast<KvPages&>(kv);
  const auto count = static_cast<std::int64_t>(pages.size());
  pool_.ForEach(count, [&](std::int64_t i, int) {
    memory.Write(pages[static_cast<size_t>(i)], {i, count}, bytes);
  });
}

std::int64_t CpuKernels::KvPageBytes(const KvShape& shape) const {
  return KvPages::PageBytes(shape, options_.kv_type);
}

void CpuKernels::SetRopes(std::span<const RopeTable> ropes) {
  ropes_.assign(ropes.begin(), ropes.end());
}

void CpuKernels::Download(const Tensor& x, std::int64_t row, std::span<float> out) {
  const auto columns = static_cast<size_t>(x.columns);
  for (size_t at = 0; at < out.size(); at += columns) {
    std::copy_n(Row(x, row++), std::min(columns, out.size() - at), out.data() + at);
  }
}

std::vector<std::span<const std::byte>> CpuKernels::LoadedBytes() const {
  std::vector<std::span<const std::byte>> bytes;
  for (const std::weak_ptr<const PackedMatrix>& loaded : loaded_) {
    const std::shared_ptr<const PackedMatrix> matrix = loaded.lock();
    if (matrix == nullptr) continue;
    for (const PackedPart& part : matrix->parts) {
      bytes.push_back(std::as_bytes(std::span(part.f32)));
      bytes.push_back(std::as_bytes(std::span(part.half)));
      bytes.push_back(std::as_bytes(std::span(part.codes)));
      bytes.push_back(std::as_bytes(std::span(part.scales)));
      bytes.push_back(std::as_bytes(std::span(part.minima)));
    }
  }
  return bytes;
}

std::unique_ptr<Kernels> MakeCpuKernels(const KernelOptions& options) {
  if (options.eight_bit_products) {
    Throw(ErrorKind::kUnsupported,
          "device cpu: --precision w8a8 is for device cuda; here mixed has 8-bit activations for "
          "quantised weights");
  }
  return std::make_unique<CpuKernels>(options);
}

}  // namespace banyan
