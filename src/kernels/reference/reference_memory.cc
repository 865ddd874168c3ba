#include "kernels/reference/reference_memory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/hadamard.h"
#include "kernels/page_form.h"
#include "tensor/narrow_floats.h"

namespace banyan::reference {
namespace {

void RoundToQ8(std::span<float> head) {
  HadamardHead(head);
  float largest = 0.0f;
  for (const float x : head) {
    if (!(std::fabs(x) <= largest)) largest = std::fabs(x);
    if (std::isnan(largest)) break;
  }
  const float scale = largest / 127.0f;
  for (float& x : head) x = scale == 0.0f ? 0.0f : std::nearbyint(x / scale) * scale;
  if (!std::isfinite(scale)) {
    for (float& x : head) x = std::nanf("");
  }
  HadamardHead(head);
}

// Calls visit(offset in the form's bytes, whether it is a value's, index in `keys` or `values`).
template <typename Visit>
void ForEachElement(const FloatKv& kv, const PageForm& form, std::span<const std::int32_t> pages,
                    const Visit& visit) {
  for (int layer = 0; layer < kv.shape.layers; ++layer) {
    for (size_t i = 0; i < pages.size(); ++i) {
      for (int head = 0; head < kv.shape.kv_heads; ++head) {
        const std::int64_t block =
            (static_cast<std::int64_t>(layer * pages.size() + i) * kv.shape.kv_heads + head) *
            form.head_bytes;
        for (int token = 0; token < kPageTokens; ++token) {
          const size_t first = kv.Offset(layer, pages[i] * kPageTokens + token, head);
          for (int d = 0; d < kv.shape.head_dim; ++d) {
            const size_t index = first + static_cast<size_t>(d);
            visit(block + 4 * PageForm::KeyIndex(token, d), false, index);
            visit(block + form.value_offset() + 4 * PageForm::ValueIndex(token, d), true, index);
          }
        }
      }
    }
  }
}

}  // namespace

std::span<const float> FloatMatrix::Row(std::int64_t row) const {
  BANYAN_CHECK(row >= 0 && row < rows);
  return std::span(values).subspan(static_cast<size_t>(row * columns),
                                   static_cast<size_t>(columns));
}

size_t FloatKv::Offset(int layer, std::int32_t slot, int kv_head) const {
  const std::int32_t page = slot / kPageTokens;
  BANYAN_CHECK(layer >= 0 && layer < shape.layers && slot >= 0 && page < pages);
  BANYAN_CHECK(kv_head >= 0 && kv_head < shape.kv_heads);
  const size_t head = (static_cast<size_t>(layer) * pages + page) * shape.kv_heads + kv_head;
  return (head * kPageTokens + slot % kPageTokens) * shape.head_dim;
}

void FloatKv::Copy(const PageCopy& copy) {
  BANYAN_CHECK(copy.from >= 0 && copy.from < pages && copy.to >= 0 && copy.to < pages);
  const size_t count = size_t{kPageTokens} * shape.kv_heads * shape.head_dim;  // in one layer
  for (int layer = 0; layer < shape.layers; ++layer) {
    const size_t from = Offset(layer, copy.from * kPageTokens, 0);
    const size_t to = Offset(layer, copy.to * kPageTokens, 0);
    std::copy_n(keys.data() + from, count, keys.data() + to);
    std::copy_n(values.data() + from, count, values.data() + to);
  }
}

void FloatKv::Read(std::span<const std::int32_t> page_list, std::span<std::byte> bytes) const {
  const PageForm form = FormOf(shape, KvType::kF32);
  std::ranges::fill(bytes, std::byte{0});
  ForEachElement(*this, form, page_list, [&](std::int64_t at, bool value, size_t index) {
    std::memcpy(bytes.data() + at, (value ? values : keys).data() + index, sizeof(float));
  });
}

void FloatKv::Write(std::span<const std::byte> bytes, std::span<const std::int32_t> page_list) {
  const PageForm form = FormOf(shape, KvType::kF32);
  ForEachElement(*this, form, page_list, [&](std::int64_t at, bool value, size_t index) {
    std::memcpy((value ? values : keys).data() + index, bytes.data() + at, sizeof(float));
  });
}

std::span<float> Row(Tensor& tensor, std::int64_t row) {
  auto& floats = *static_cast<std::vector<float>*>(tensor.memory.get());
  BANYAN_CHECK(row >= 0 && row < tensor.rows);
  BANYAN_CHECK(floats.size() >= static_cast<size_t>(tensor.rows * tensor.columns));
  return std::span(floats).subspan(static_cast<size_t>(row * tensor.columns),
                                   static_cast<size_t>(tensor.columns));
}

std::span<const float> Row(const Tensor& tensor, std::int64_t row) {
  Tensor same = tensor;
  return Row(same, row);
}

void RoundToKvType(KvType type, std::span<float> head) {
  switch (type) {
    case KvType::kF32:
      return;
    case KvType::kF16:
      for (float& x : head) x = F16ToFloat(FloatToF16(x));
      return;
    case KvType::kBF16:
      for (float& x : head) x = BF16ToFloat(FloatToBF16(x));
      return;
    case KvType::kQ8:
      RoundToQ8(head);
      return;
  }
  BANYAN_CHECK(false);
}

const Step& AsStep(const StepInputs& step) {
  const auto* known = dynamic_cast<const Step*>(&step);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

const FloatMatrix& AsFloats(const Matrix& matrix) {
  const auto* known = dynamic_cast<const FloatMatrix*>(&matrix);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

const FloatVector& AsFloats(const Vector& vector) {
  const auto* known = dynamic_cast<const FloatVector*>(&vector);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

FloatKv& AsFloats(KvMemory& kv) {
  auto* known = dynamic_cast<FloatKv*>(&kv);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

const FloatKv& AsFloats(const KvMemory& kv) {
  const auto* known = dynamic_cast<const FloatKv*>(&kv);
  BANYAN_CHECK(known != nullptr);
  return *known;
}

}  // namespace banyan::reference
