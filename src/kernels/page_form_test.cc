// Pages leave a backend and come back with the bits they had, in the form that is documented.
#include "kernels/page_form.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <random>

#include "base/error.h"
#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

// Heads of 20 are transformed by four: a result may be twice as large as the largest, and the half
// steps of four codes may add up to twice a half step in one value.
TEST(PageForm, RoundingToEightBitsIsWithinHalfAStep) {
  const KvShape shape{2, 2, 20};
  const PageForm from = FormOf(shape, KvType::kF32), to = FormOf(shape, KvType::kQ8);
  std::mt19937 random(1);
  std::vector<std::byte> bytes(static_cast<size_t>(3 * from.page_bytes()));
  std::vector<std::byte> rounded(static_cast<size_t>(3 * to.page_bytes())), back(bytes.size());
  auto* floats = reinterpret_cast<float*>(bytes.data());
  for (size_t i = 0; i < bytes.size() / 4; ++i) {
    floats[i] = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0f;
  }
  const RoundingLoss loss = ConvertPages(from, bytes, to, rounded);
  EXPECT_GT(loss.OfKeys(), 0.001);
  EXPECT_LT(loss.OfKeys(), 0.006);
  ConvertPages(to, rounded, from, back);
  std::vector<float> keys(20), values(20), old_keys(20), old_values(20);
  for (std::int64_t head = 0; head < 3 * 4; ++head) {
    for (int token = 0; token < kPageTokens; ++token) {
      ReadToken(from, bytes.data() + head * from.head_bytes, token, old_keys, old_values);
      ReadToken(to, rounded.data() + head * to.head_bytes, token, keys, values);
      for (size_t d = 0; d < 20; ++d) {
        EXPECT_NEAR(keys[d], old_keys[d], 4 * 0.5001 / 127.0);
        EXPECT_NEAR(values[d], old_values[d], 4 * 0.5001 / 127.0);
      }
    }
  }
}

TEST(PageForm, TokensThatBelongToNobodyAreCleared) {
  const KvShape shape{1, 2, 20};
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8}) {
    const PageForm form = FormOf(shape, type);
    std::vector<std::byte> bytes(static_cast<size_t>(2 * form.page_bytes()), std::byte{60});
    ClearTokensFrom(form, 2, 5, bytes);
    std::vector<float> keys(20), values(20);
    for (const int token : {4, 5, 15}) {
      for (const int page : {0, 1}) {
        const std::byte* head = bytes.data() + page * form.layer_bytes() + form.head_bytes;
        ReadToken(form, head, token, keys, values);
        const bool cleared = page == 1 && token >= 5;
        // Equal codes are those of one value in four.
        EXPECT_EQ(keys[16] == 0.0f, cleared);
        EXPECT_EQ(values[16] == 0.0f, cleared);
      }
    }
  }
}

struct PageCase {
  const char* device;
  KvType type;
};

class PageExchange : public ::testing::TestWithParam<PageCase> {};

// Random bytes of numbers go in, come out of other pages after a copy, and are the same.
TEST_P(PageExchange, BytesComeBackFromOtherPages) {
  KernelOptions options;
  options.precision = GetParam().type == KvType::kF32 ? Precision::kF32 : Precision::kMixed;
  options.kv_type = GetParam().type;
  std::unique_ptr<Kernels> kernels;
  try {
    kernels = MakeKernels(GetParam().device, options);
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  const KvShape shape{3, 2, std::string(GetParam().device) == "cuda" ? 64 : 20};
  const PageForm form = FormOf(shape, kernels->page_type());
  const auto memory = kernels->NewKvMemory(shape, 9);
  std::mt19937 random(2);
  std::vector<std::byte> bytes(static_cast<size_t>(3 * form.page_bytes()));
  for (std::int64_t head = 0; head < 3 * 3 * 2; ++head) {
    std::byte* at = bytes.data() + head * form.head_bytes;
    for (int token = 0; token < kPageTokens; ++token) {
      for (int d = 0; d < shape.head_dim; ++d) {
        for (const bool value : {false, true}) {
          const auto number = static_cast<float>(static_cast<int>(random() % 400) - 200) / 64.0f;
          std::byte* element = at + (value ? form.value_offset() +
                                                 PageForm::ValueIndex(token, d) * form.element_bytes
                                           : PageForm::KeyIndex(token, d) * form.element_bytes);
          const std::uint16_t half =
              form.type == KvType::kF16 ? FloatToF16(number) : FloatToBF16(number);
          if (form.type == KvType::kF32) std::memcpy(element, &number, 4);
          if (form.element_bytes == 2) std::memcpy(element, &half, 2);
          if (form.type == KvType::kQ8) *element = static_cast<std::byte>(random() % 255);
        }
      }
      if (form.type != KvType::kQ8) continue;
      for (const int half : {0, 1}) {
        const float scale = 0.01f * static_cast<float>(1 + random() % 50);
        std::memcpy(at + form.scale_offset() + 4 * (half * kPageTokens + token), &scale, 4);
      }
    }
  }
  const std::int32_t in[] = {7, 0, 4}, out[] = {2, 3, 8};
  kernels->WritePages(bytes, in, *memory);
  const PageCopy copies[] = {{7, 2}, {0, 3}, {4, 8}};
  kernels->CopyPages(copies, *memory);
  std::vector<std::byte> back(bytes.size(), std::byte{1});
  kernels->ReadPages(*memory, out, back);
  EXPECT_EQ(back, bytes);
}

std::string NameOfCase(const ::testing::TestParamInfo<PageCase>& info) {
  constexpr const char* kTypeNames[] = {"f32", "f16", "bf16", "q8"};
  return fmt::format("{}_{}", info.param.device, kTypeNames[static_cast<int>(info.param.type)]);
}

INSTANTIATE_TEST_SUITE_P(
    Backends, PageExchange,
    ::testing::Values(PageCase{"cpu", KvType::kF32}, PageCase{"cpu", KvType::kF16},
                      PageCase{"cpu", KvType::kBF16}, PageCase{"cpu", KvType::kQ8},
                      PageCase{"reference", KvType::kQ8}, PageCase{"cuda", KvType::kF32},
                      PageCase{"cuda", KvType::kF16}, PageCase{"cuda", KvType::kBF16},
                      PageCase{"cuda", KvType::kQ8}),
    NameOfCase);

}  // namespace
}  // namespace banyan
