#include "kernels/page_form.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/hadamard.h"
#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

int ElementBytes(KvType type) {
  switch (type) {
    case KvType::kF32:
      return 4;
    case KvType::kF16:
    case KvType::kBF16:
      return 2;
    case KvType::kQ8:
      return 1;
  }
  return 4;
}

float Element(KvType type, const std::byte* base, std::int64_t index, float scale) {
  if (type == KvType::kQ8) {
    return static_cast<float>(static_cast<std::int8_t>(base[index])) * scale;
  }
  if (type == KvType::kF32) {
    float value = 0.0f;
    std::memcpy(&value, base + 4 * index, 4);
    return value;
  }
  std::uint16_t half = 0;
  std::memcpy(&half, base + 2 * index, 2);
  return type == KvType::kF16 ? F16ToFloat(half) : BF16ToFloat(half);
}

void PutElement(KvType type, std::byte* base, std::int64_t index, float value) {
  if (type == KvType::kF32) {
    std::memcpy(base + 4 * index, &value, 4);
    return;
  }
  const std::uint16_t half = type == KvType::kF16 ? FloatToF16(value) : FloatToBF16(value);
  std::memcpy(base + 2 * index, &half, 2);
}

float ScaleOf(const PageForm& form, const std::byte* head, int token, bool value) {
  if (form.type != KvType::kQ8) return 1.0f;
  float scale = 0.0f;
  std::memcpy(&scale, head + form.scale_offset() + 4 * (token + (value ? kPageTokens : 0)), 4);
  return scale;
}

// Keys or values of one token as floats.
void ReadHalf(const PageForm& form, const std::byte* head, int token, bool value,
              std::span<float> out) {
  const std::byte* base = head + (value ? form.value_offset() : 0);
  const float scale = ScaleOf(form, head, token, value);
  for (int d = 0; d < form.shape.head_dim; ++d) {
    const std::int64_t index =
        value ? PageForm::ValueIndex(token, d) : PageForm::KeyIndex(token, d);
    out[static_cast<size_t>(d)] = Element(form.type, base, index, scale);
  }
  if (form.type == KvType::kQ8) HadamardHead(out);
}

// Hadamard-transforms `in` where the form is kQ8.
void WriteHalf(const PageForm& form, std::byte* head, int token, bool value, std::span<float> in) {
  std::byte* base = head + (value ? form.value_offset() : 0);
  float scale = 1.0f;
  if (form.type == KvType::kQ8) {
    HadamardHead(in);
    float largest = 0.0f;
    for (const float x : in) largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : NAN;
    scale = largest / 127.0f;
    std::memcpy(head + form.scale_offset() + 4 * (token + (value ? kPageTokens : 0)), &scale, 4);
  }
  for (int d = 0; d < form.shape.head_dim; ++d) {
    const std::int64_t index =
        value ? PageForm::ValueIndex(token, d) : PageForm::KeyIndex(token, d);
    const float x = in[static_cast<size_t>(d)];
    if (form.type == KvType::kQ8) {
      const float code = scale > 0.0f ? std::nearbyint(x / scale) : 0.0f;
      base[index] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    } else {
      PutElement(form.type, base, index, x);
    }
  }
}

double Part(double error, double squares) { return squares > 0.0 ? std::sqrt(error / squares) : 0; }

}  // namespace

PageForm FormOf(const KvShape& shape, KvType type) {
  BANYAN_CHECK(shape.by_layer.empty());
  PageForm form;
  form.shape = shape;
  form.type = type;
  form.element_bytes = ElementBytes(type);
  form.key_elements = std::int64_t{shape.head_dim} * kPageTokens;
  form.value_elements = (std::int64_t{shape.head_dim} + 15) / 16 * 16 * kPageTokens;
  const std::int64_t scales = type == KvType::kQ8 ? 2 * kPageTokens * 4 : 0;
  form.head_bytes = (form.scale_offset() + scales + 63) / 64 * 64;
  return form;
}

PageForm FormOfLayer(const KvShape& shape, int layer, KvType type) {
  const KvHeads heads = shape.Of(layer);
  return FormOf({1, heads.heads, heads.dim}, type);
}

void ClearTokensFrom(const PageForm& form, int pages, int token, std::span<std::byte> bytes) {
  if (token >= kPageTokens || pages == 0) return;
  const std::int64_t element = form.element_bytes;
  for (int layer = 0; layer < form.shape.layers; ++layer) {
    for (int head = 0; head < form.shape.kv_heads; ++head) {
      const std::int64_t page = std::int64_t{layer} * pages + pages - 1;
      std::byte* at = bytes.data() + page * form.layer_bytes() + head * form.head_bytes;
      std::byte* values = at + form.value_offset();
      for (int t = token; t < kPageTokens; ++t) {
        for (int d = 0; d < form.shape.head_dim; ++d) {
          std::memset(at + PageForm::KeyIndex(t, d) * element, 0, static_cast<size_t>(element));
          std::memset(values + PageForm::ValueIndex(t, d) * element, 0,
                      static_cast<size_t>(element));
        }
        if (form.type != KvType::kQ8) continue;
        std::memset(at + form.scale_offset() + 4 * t, 0, 4);
        std::memset(at + form.scale_offset() + 4 * (t + kPageTokens), 0, 4);
      }
    }
  }
}

RoundingLoss& RoundingLoss::operator+=(const RoundingLoss& other) {
  key_squares += other.key_squares;
  key_error += other.key_error;
  value_squares += other.value_squares;
  value_error += other.value_error;
  return *this;
}

double RoundingLoss::OfKeys() const { return Part(key_error, key_squares); }
double RoundingLoss::OfValues() const { return Part(value_error, value_squares); }

RoundingLoss ConvertPages(const PageForm& from, std::span<const std::byte> bytes,
                          const PageForm& to, std::span<std::byte> out) {
  const auto heads = static_cast<std::int64_t>(bytes.size()) / from.head_bytes;
  BANYAN_CHECK(heads * from.head_bytes == static_cast<std::int64_t>(bytes.size()));
  BANYAN_CHECK(heads * to.head_bytes == static_cast<std::int64_t>(out.size()));
  std::ranges::fill(out, std::byte{0});
  const auto dim = static_cast<size_t>(from.shape.head_dim);
  std::vector<float> before(dim), written(dim), after(dim);
  RoundingLoss loss;
  for (std::int64_t head = 0; head < heads; ++head) {
    const std::byte* source = bytes.data() + head * from.head_bytes;
    std::byte* target = out.data() + head * to.head_bytes;
    for (int token = 0; token < kPageTokens; ++token) {
      for (const bool value : {false, true}) {
        ReadHalf(from, source, token, value, before);
        written = before;
        WriteHalf(to, target, token, value, written);
        ReadHalf(to, target, token, value, after);
        double& squares = value ? loss.value_squares : loss.key_squares;
        double& error = value ? loss.value_error : loss.key_error;
        for (size_t d = 0; d < dim; ++d) {
          const double lost = double{after[d]} - double{before[d]};
          if (!std::isfinite(lost)) continue;  // a broken head stays broken
          squares += double{before[d]} * double{before[d]};
          error += lost * lost;
        }
      }
    }
  }
  return loss;
}

void ReadToken(const PageForm& form, const std::byte* head, int token, std::span<float> keys,
               std::span<float> values) {
  ReadHalf(form, head, token, false, keys);
  ReadHalf(form, head, token, true, values);
}

}  // namespace banyan
