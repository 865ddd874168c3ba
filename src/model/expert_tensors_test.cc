#include "model/expert_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "support/error_message.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;

std::vector<float> ValuesOf(const HostTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  return values;
}

TEST(ExpertTensors, ViewsAndTransposes) {
  std::vector<float> numbers(2 * 3 * 2);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const HostTensor stacked{"all", DType::kF32, {2, 3, 2}, std::as_bytes(std::span(numbers))};
  const ExpertTensor second = ExpertOf(stacked, 1);
  EXPECT_THAT(second.tensor.shape, ElementsAre(3, 2));
  EXPECT_THAT(ValuesOf(second.tensor), ElementsAre(6, 7, 8, 9, 10, 11));
  EXPECT_TRUE(second.bytes.empty()) << "a view";
  const ExpertTensor turned = TransposedExpertOf(stacked, 1);
  EXPECT_THAT(turned.tensor.shape, ElementsAre(2, 3));
  EXPECT_THAT(ValuesOf(turned.tensor), ElementsAre(6, 8, 10, 7, 9, 11));
  const ExpertTensor moved = [&] { return TransposedExpertOf(stacked, 0); }();
  EXPECT_THAT(ValuesOf(moved.tensor), ElementsAre(0, 2, 4, 1, 3, 5));
}

// Byte i of a block holds values 2 i and 2 i + 1.
TEST(ExpertTensors, Mxfp4OfSafetensors) {
  constexpr float kFloats[16] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6};
  std::vector<std::byte> blocks(2 * 3 * 2 * 16), scales(2 * 3 * 2);
  std::vector<float> wanted;
  std::uint32_t random = 9;
  const auto next = [&] { return (random = random * 1664525u + 1013904223u) >> 24; };
  for (size_t block = 0; block < scales.size(); ++block) {
    const int exponent = static_cast<int>(next() % 9) - 4;
    scales[block] = static_cast<std::byte>(127 + exponent);
    for (size_t i = 0; i < 16; ++i) {
      const std::uint32_t pair = next();
      blocks[block * 16 + i] = static_cast<std::byte>(pair);
      wanted.push_back(std::ldexp(kFloats[pair & 15], exponent));
      wanted.push_back(std::ldexp(kFloats[pair >> 4], exponent));
    }
  }
  const HostTensor block_tensor{"x_blocks", DType::kF32, {2, 3, 2, 16}, blocks};
  const HostTensor scale_tensor{"x_scales", DType::kF32, {2, 3, 2}, scales};
  for (const size_t expert : {0u, 1u}) {
    const ExpertTensor one =
        Mxfp4ExpertOf(block_tensor, scale_tensor, static_cast<std::int64_t>(expert), "m");
    EXPECT_THAT(one.tensor.shape, ElementsAre(3, 64));
    EXPECT_EQ(one.tensor.dtype, DType::kMXFP4);
    const auto begin = wanted.begin() + static_cast<std::ptrdiff_t>(expert * 192);
    EXPECT_EQ(ValuesOf(one.tensor), std::vector<float>(begin, begin + 192));
  }
  scales[7] = std::byte{0xff};
  EXPECT_THAT(
      ErrorMessage(ErrorKind::kFormat, [&] { Mxfp4ExpertOf(block_tensor, scale_tensor, 1, "m"); }),
      HasSubstr("'x_scales', expert 1: block 1 has a scale that is NaN"));
}

// A layer of gpt-oss with one expert, as blocks and scales.
TEST(LayerExperts, ShapesAreChecked) {
  ModelConfig config;
  config.hidden_size = 64;
  config.experts.count = 1;
  config.experts.inner_size = 32;
  config.experts.in_pairs = true;
  const std::vector<std::byte> bytes(4096, std::byte{0x11});
  const auto add = [&](TensorStore& store, const char* name, std::vector<std::int64_t> shape) {
    size_t size = 1;
    for (const std::int64_t extent : shape) size *= static_cast<size_t>(extent);
    store.AddBytes({name, DType::kF32, std::move(shape), std::span(bytes).first(size)}, "m");
  };
  TensorStore store;
  add(store, "l.mlp.experts.gate_up_proj_blocks", {1, 64, 2, 16});
  add(store, "l.mlp.experts.gate_up_proj_scales", {1, 64, 2});
  add(store, "l.mlp.experts.down_proj_blocks", {1, 64, 1, 16});
  add(store, "l.mlp.experts.down_proj_scales", {1, 63, 1});
  const LayerExperts layer(config, store, "l.", false);
  const StackedTensors gate_up = layer.GateUp(0);
  EXPECT_THAT(gate_up.parts.front().tensor.shape, ElementsAre(64, 64));
  EXPECT_EQ(gate_up.order[1], 2);
  EXPECT_EQ(gate_up.order[32], 1);
  EXPECT_EQ(
      ErrorMessage(ErrorKind::kFormat, [&] { layer.Down(0); }),
      "m: tensor 'l.mlp.experts.down_proj_scales': expected shape [1, 64, 1], found [1, 63, 1]");
  EXPECT_THAT(ErrorMessage(ErrorKind::kNotFound, [&] { layer.router(); }),
              HasSubstr("no tensor 'l.mlp.gate.weight'"));
  config.experts.inner_size = 40;
  EXPECT_THAT(
      ErrorMessage(ErrorKind::kFormat, [&] { LayerExperts(config, store, "l.", false).Down(0); }),
      HasSubstr("rows of 40 values, expected a multiple of 32"));
  store = TensorStore();
  store.Add({"l.mlp.experts.gate_up_proj_blocks", DType::kF32, {1}, std::span(bytes).first(4)},
            "m");
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { layer.GateUp(0); }),
              HasSubstr("expected element type U8, found F32"));
}

}  // namespace
}  // namespace banyan
