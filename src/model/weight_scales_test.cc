// Codes with scales: what is read, and what is refused with which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "formats/safetensors.h"
#include "model/weight_scales.h"
#include "support/error_message.h"
#include "support/safetensors_writer.h"
#include "tensor/quantization.h"

namespace banyan {

namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::SafetensorsWriter;

WeightScales ReadScales(const std::string& json) {
  const Json parsed = ParseJson(json, "config.json");
  return ReadWeightScales(JsonFields(parsed, "config.json: quantization_config"));
}

std::string Compressed(const std::string& weights, const std::string& more = "") {
  return R"({"quant_method": "compressed-tensors", "format": "float-quantized", )" + more +
         R"("config_groups": {"group_0": {"targets": ["Linear"], "weights": )" + weights + "}}}";
}

TEST(WeightScales, OfCompressedTensors) {
  const WeightScales row =
      ReadScales(Compressed(R"({"num_bits": 8, "type": "float", "strategy": "channel"})"));
  EXPECT_TRUE(row.per_row && !row.per_matrix && row.block_rows == 0);
  EXPECT_THAT(row.endings, ElementsAre("weight_scale"));
  EXPECT_TRUE(
      ReadScales(Compressed(R"({"num_bits": 8, "type": "int", "strategy": "tensor"})")).per_matrix);
  const WeightScales block = ReadScales(Compressed(
      R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [64, 128]})"));
  EXPECT_EQ(block.block_rows, 64);
  EXPECT_EQ(block.block_columns, 128);
}

TEST(WeightScales, OfFp8) {
  const WeightScales block =
      ReadScales(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})");
  EXPECT_EQ(block.block_rows, 128);
  EXPECT_FALSE(block.per_row || block.per_matrix);
  EXPECT_EQ(block.endings.front(), "weight_scale_inv");
  EXPECT_TRUE(ReadScales(R"({"quant_method": "fp8", "weight_block_size": null})").per_matrix);
}

TEST(WeightScales, RefusesOtherWays) {
  const auto refusal = [](const std::string& json) {
    return ErrorMessage(ErrorKind::kUnsupported, [&] { ReadScales(json); });
  };
  EXPECT_THAT(refusal(R"({"quant_method": "awq"})"), HasSubstr("'awq'"));
  EXPECT_THAT(refusal(R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
 "config_groups": {}})"),
              AllOf(HasSubstr("not supported"), HasSubstr("'pack-quantized'")));
  EXPECT_THAT(refusal(Compressed(R"({"num_bits": 4, "type": "int", "strategy": "channel"})")),
              HasSubstr("4 bits"));
  EXPECT_THAT(refusal(Compressed(R"({"num_bits": 8, "type": "int", "strategy": "group"})")),
              HasSubstr("strategy 'group'"));
  EXPECT_THAT(refusal(Compressed(R"({"num_bits": 8, "symmetric": false})")),
              HasSubstr("zero points"));
  EXPECT_THAT(refusal(Compressed(R"({"num_bits": 8})",
                                 R"("sparsity_config": {"format": "sparse-24-bitmask"}, )")),
              HasSubstr("sparse-24-bitmask"));
  EXPECT_THAT(refusal(R"({"quant_method": "fp8", "fmt": "e5m2"})"), HasSubstr("'e5m2'"));
  for (const char* bad : {R"({"quant_method": "fp8", "weight_block_size": [128]})",
                          R"({"quant_method": "fp8", "weight_block_size": [0, 128]})",
                          R"({"quant_method": "compressed-tensors"})"}) {
    EXPECT_FALSE(ErrorMessage(ErrorKind::kFormat, [&] { ReadScales(bad); }).empty()) << bad;
  }
}

// A matrix of codes [3, 4], scales of some shape, and what else a file may hold.
class ScaledTensors : public testing::Test {
 protected:
  const TensorStore& Open(const WeightScales& scales) {
    bytes_ = writer_.Bytes();
    store_ = ReadSafetensors(std::as_bytes(std::span(bytes_)), "m.safetensors");
    FindScales(scales, store_);
    return store_;
  }

  void Codes(const std::string& name, std::vector<std::int64_t> shape,
             const std::vector<int>& codes, const char* type = "F8_E4M3") {
    std::vector<std::byte> stored;
    for (const int code : codes) stored.push_back(static_cast<std::byte>(code));
    writer_.Tensor(name, type, shape, stored);
  }

  std::vector<float> Apply(const WeightScales& scales, Precision precision = Precision::kF32) {
    const TensorStore& store = Open(scales);
    const ScaledTensor scaled =
        ApplyScales(store.Get("a.weight", {3, 4}), store, scales, precision, pool_);
    EXPECT_EQ(scaled.tensor.dtype, precision == Precision::kF32 ? DType::kF32 : DType::kBF16);
    std::vector<float> values(12);
    Dequantize(scaled.tensor.dtype, scaled.tensor.bytes, values);
    return values;
  }

  static WeightScales OfRows() {
    return {"compressed-tensors", {"weight_scale"}, true, true, 0, 0};
  }
  static WeightScales OfBlocks() { return {"fp8", {"weight_scale_inv"}, false, false, 2, 3}; }

  const std::vector<int> ones_ = std::vector<int>(12, 0x38);
  SafetensorsWriter writer_;
  std::string bytes_;
  TensorStore store_;
  ThreadPool pool_{2};
};

TEST_F(ScaledTensors, ScalesMultiply) {
  Codes("a.weight", {3, 4}, {0x38, 0x40, 0xb8, 0, 0x38, 0x38, 0x38, 0x38, 0x30, 1, 0x7e, 0xfe});
  writer_.TensorF32("a.weight_scale", std::vector<std::int64_t>{3, 1},
                    std::vector<float>{0.5f, 3.0f, 0.1f});
  EXPECT_THAT(Apply(OfRows()),
              ElementsAre(0.5f, 1.0f, -0.5f, 0.0f, 3.0f, 3.0f, 3.0f, 3.0f, 0.5f * 0.1f,
                          0x1p-9f * 0.1f, 448.0f * 0.1f, -448.0f * 0.1f));
  EXPECT_EQ(Apply(OfRows(), Precision::kMixed)[8], 0.050048828125f);  // 0.05 as bf16
}

// Blocks of 2 rows by 3 columns: the last ones are cut off.
TEST_F(ScaledTensors, ScalesOfBlocks) {
  Codes("a.weight", {3, 4}, ones_);
  writer_.TensorF32("a.weight_scale_inv", std::vector<std::int64_t>{2, 2},
                    std::vector<float>{1, 2, 3, 4});
  EXPECT_THAT(Apply(OfBlocks()), ElementsAre(1, 1, 1, 2, 1, 1, 1, 2, 3, 3, 3, 4));
}

TEST_F(ScaledTensors, OneScaleOfAnyShape) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{}, std::vector<std::int64_t>{1},
        std::vector<std::int64_t>{1, 1}}) {
    writer_ = {};
    Codes("a.weight", {3, 4}, ones_, "I8");
    writer_.TensorF32("a.weight_scale", shape, std::vector<float>{0.25f});
    EXPECT_THAT(Apply(OfRows()), testing::Each(14.0f));  // 0x38 is 56
  }
}

TEST_F(ScaledTensors, SaysWhichScalesAreWrong) {
  Codes("a.weight", {3, 4}, ones_);
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { Open(OfRows()); }),
              AllOf(HasSubstr("m.safetensors"), HasSubstr("'a.weight'"), HasSubstr("F8_E4M3"),
                    HasSubstr("expected 'a.weight_scale'")));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Open({}); }),
              AllOf(HasSubstr("m.safetensors"), HasSubstr("no quantization_config")));
  writer_.TensorF32("a.weight_scale", std::vector<std::int64_t>{4}, std::vector<float>(4, 1.0f));
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { Open(OfRows()); }),
              AllOf(HasSubstr("'a.weight_scale'"), HasSubstr("[3, 1]"), HasSubstr("found [4]")));
}

TEST_F(ScaledTensors, RefusesCodesThatAreNoMatrix) {
  Codes("norm.weight", {12}, ones_);
  writer_.TensorF32("norm.weight_scale", std::vector<std::int64_t>{1}, std::vector<float>{1.0f});
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Open(OfRows()); }),
              AllOf(HasSubstr("'norm.weight'"), HasSubstr("[12]")));
}

TEST_F(ScaledTensors, RefusesAMatrixOfNothing) {
  Codes("a.weight", {3, 0}, {});
  writer_.TensorF32("a.weight_scale", std::vector<std::int64_t>{1}, std::vector<float>{1.0f});
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Open(OfRows()); }), HasSubstr("[3, 0]"));
}

TEST_F(ScaledTensors, RefusesWhatIsNotFinite) {
  std::vector<int> codes = ones_;
  codes[5] = 0x7f;
  Codes("a.weight", {3, 4}, codes);
  writer_.TensorF32("a.weight_scale", std::vector<std::int64_t>{1}, std::vector<float>{1.0f});
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { Apply(OfRows()); }),
              AllOf(HasSubstr("'a.weight'"), HasSubstr("row 1"), HasSubstr("not finite")));
  writer_ = {};
  Codes("a.weight", {3, 4}, ones_);
  writer_.TensorF32("a.weight_scale", std::vector<std::int64_t>{1},
                    std::vector<float>{std::numeric_limits<float>::infinity()});
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { Apply(OfRows()); }),
              AllOf(HasSubstr("'a.weight_scale'"), HasSubstr("scale 0 is inf")));
}

// Nobody reads codes as if they were weights.
TEST_F(ScaledTensors, CodesAreNotGivenOutBeforeTheirScales) {
  Codes("a.weight", {3, 4}, ones_);
  bytes_ = writer_.Bytes();
  store_ = ReadSafetensors(std::as_bytes(std::span(bytes_)), "m.safetensors");
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { store_.GetAnyShape("a.weight"); }),
              AllOf(HasSubstr("F8_E4M3"), HasSubstr("without scales")));
}

}  // namespace

}  // namespace banyan
