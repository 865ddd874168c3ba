// What an adapter's files say, and what is refused.
#include "model/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "formats/safetensors.h"
#include "model/matrix_loader.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_adapter.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::LoraConfig;
using testing_support::RandomModule;
using testing_support::SafetensorsWriter;
using testing_support::TinyModule;

const std::string kQuery = "model.layers.0.self_attn.q_proj";

// Keeps the bytes that the adapter views.
struct InMemory {
  InMemory(const std::string& config, std::string file)
      : bytes(std::move(file)),
        adapter(config, ReadSafetensors(std::as_bytes(std::span(bytes)), "DIR/file"), "DIR") {}
  InMemory(const std::string& config, const std::vector<TinyModule>& modules)
      : InMemory(config, testing_support::TinyAdapterTensors(modules).Bytes()) {}

  std::string bytes;
  Adapter adapter;
};

std::string Refusal(ErrorKind kind, const std::string& config) {
  return ErrorMessage(kind, [&] { InMemory(config, {RandomModule(kQuery, 6, 4)}); });
}

TEST(AdapterConfig, ScaleIsAlphaOverRankOrItsRoot) {
  const auto scale = [](const std::string& fields) {
    return ReadAdapterConfig(LoraConfig(fields), "f").ScaleOf(kQuery);
  };
  EXPECT_EQ(scale(R"("r":8,"lora_alpha":16)"), 2.0f);
  EXPECT_EQ(scale(R"("r":16,"lora_alpha":8,"use_rslora":true)"), 2.0f);
  EXPECT_EQ(scale(R"("r":8,"lora_alpha":16,"alpha_pattern":{"q_proj":4})"), 0.5f);
  EXPECT_EQ(scale(R"("r":8,"lora_alpha":16,"rank_pattern":{"q_proj":4})"), 4.0f);
  EXPECT_EQ(
      scale(
          R"("r":8,"lora_alpha":16,"rank_pattern":{"^model\\.layers\\.0\\.self_attn\\.q_proj":2})"),
      8.0f);
  EXPECT_EQ(scale(R"("r":8,"lora_alpha":16,"rank_pattern":{"layers.1.self_attn.q_proj":2})"), 2.0f);
  EXPECT_EQ(scale(R"("r":8,"lora_alpha":16,"rank_pattern":{"_proj":2,"^q_proj":4})"), 2.0f);
}

TEST(AdapterConfig, RefusesWhatIsMoreThanAProduct) {
  const std::string rank = R"("r":2,"lora_alpha":2,)";
  for (const char* more :
       {R"("use_dora":true)", R"("modules_to_save":["lm_head"])", R"("lora_bias":true)",
        R"("layer_replication":[[0,2]])", R"("init_lora_weights":"pissa_niter_4")",
        R"("target_parameters":["experts"])", R"("rank_pattern":{"q_.*":4})"}) {
    const std::string message = Refusal(ErrorKind::kUnsupported, LoraConfig(rank + more));
    const std::string key = std::string(more).substr(1, std::string(more).find(':') - 2);
    EXPECT_THAT(message, AllOf(HasSubstr("DIR/adapter_config.json"), HasSubstr(key)));
  }
  EXPECT_THAT(Refusal(ErrorKind::kUnsupported, R"({"peft_type":"IA3","r":2,"lora_alpha":2})"),
              HasSubstr("IA3"));
  EXPECT_THAT(
      Refusal(ErrorKind::kUnsupported, R"({"peft_type":"LORA","bias":"all","r":2,"lora_alpha":2})"),
      HasSubstr("'bias'"));
}

TEST(AdapterConfig, RefusesNumbersThatMeanNothing) {
  EXPECT_THAT(Refusal(ErrorKind::kFormat, LoraConfig(R"("r":0,"lora_alpha":2)")), HasSubstr("'r'"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, LoraConfig(R"("r":2)")), HasSubstr("lora_alpha"));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, LoraConfig(R"("r":2000000000,"lora_alpha":2)")),
              AllOf(HasSubstr("lora_A"), HasSubstr("2000000000"), HasSubstr("[2, 4]")));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, LoraConfig(R"("r":2,"lora_alpha":1e300)")),
              HasSubstr("1e+300"));
  EXPECT_THAT(
      Refusal(
          ErrorKind::kFormat,
          LoraConfig(R"("r":2,"lora_alpha":2,"alpha_pattern":{"q_proj":1,"self_attn.q_proj":3})")),
      AllOf(HasSubstr("'q_proj'"), HasSubstr("'self_attn.q_proj'")));
  EXPECT_THAT(Refusal(ErrorKind::kFormat, "[]"), HasSubstr("adapter_config.json"));
}

const std::string kConfig = LoraConfig(R"("r":2,"lora_alpha":4)");

TEST(Adapter, FindsProductsAndChecksTheirShapes) {
  InMemory files(kConfig, {RandomModule(kQuery, 6, 4)});
  Adapter& adapter = files.adapter;
  EXPECT_EQ(adapter.Find("model.layers.1.self_attn.q_proj", 6, 4), nullptr);
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { adapter.CheckAllFound(); }),
              AllOf(HasSubstr(kQuery), HasSubstr("another model")));
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { adapter.Find(kQuery, 6, 5); }),
              AllOf(HasSubstr("lora_A"), HasSubstr("[2, 5]"), HasSubstr("[2, 4]")));
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { adapter.Find(kQuery, 8, 4); }),
              AllOf(HasSubstr("lora_B"), HasSubstr("[8, 2]"), HasSubstr("[6, 2]")));
  const LowRankProduct* product = adapter.Find(kQuery, 6, 4);
  ASSERT_NE(product, nullptr);
  EXPECT_EQ(product->rank, 2);
  EXPECT_EQ(product->scale, 2.0f);
  adapter.CheckAllFound();
}

TEST(Adapter, RefusesTensorsThatDoNotFitTogether) {
  const auto refuse = [](ErrorKind kind, const SafetensorsWriter& tensors,
                         const std::string& config = kConfig) {
    return ErrorMessage(kind, [&] { InMemory(config, tensors.Bytes()); });
  };
  const std::string name = "base_model.model." + kQuery;
  const std::vector<float> values(8, 1.0f);
  SafetensorsWriter alone;
  alone.TensorF32(name + ".lora_A.weight", std::vector<std::int64_t>{2, 4}, values);
  EXPECT_THAT(refuse(ErrorKind::kFormat, alone), HasSubstr("without its lora_B"));
  SafetensorsWriter other = alone;
  other.TensorF32(name + ".lora_B.weight", std::vector<std::int64_t>{2, 4}, values);
  EXPECT_THAT(refuse(ErrorKind::kFormat, other), AllOf(HasSubstr("lora_B"), HasSubstr("[2, 4]")));
  SafetensorsWriter flat;
  flat.TensorF32(name + ".lora_A.weight", std::vector<std::int64_t>{8}, values);
  EXPECT_THAT(refuse(ErrorKind::kFormat, flat), HasSubstr("expected a matrix"));
  SafetensorsWriter integers;
  integers.Tensor(name + ".lora_A.weight", "I64", std::vector<std::int64_t>{1, 1},
                  std::vector<std::byte>(8));
  EXPECT_THAT(refuse(ErrorKind::kUnsupported, integers), HasSubstr("I64"));
  SafetensorsWriter whole;
  whole.TensorF32("base_model.model.lm_head.weight", std::vector<std::int64_t>{2, 4}, values);
  EXPECT_THAT(refuse(ErrorKind::kUnsupported, whole), HasSubstr("base_model.model.lm_head.weight"));
  EXPECT_THAT(refuse(ErrorKind::kFormat, SafetensorsWriter()), HasSubstr("no tensors"));
  EXPECT_THAT(
      refuse(ErrorKind::kFormat, testing_support::TinyAdapterTensors({RandomModule(kQuery, 6, 4)}),
             LoraConfig(R"("r":2,"lora_alpha":2,"target_modules":["q_proj","k_proj"])")),
      HasSubstr("'k_proj'"));
}

TEST(Adapter, NeedsADirectoryWithBothFiles) {
  const testing_support::TempDirectory folder;
  EXPECT_THAT(ErrorMessage(ErrorKind::kNotFound, [&] { Adapter::Open(folder.path() / "no"); }),
              HasSubstr("no directory"));
  std::ofstream(folder.path() / "adapter_config.json") << kConfig;
  EXPECT_THAT(ErrorMessage(ErrorKind::kNotFound, [&] { Adapter::Open(folder.path()); }),
              HasSubstr("there is no adapter_model.safetensors"));
}

// Rows 4 to 9 of 10 get the product; the rows are turned around first.
class Merging : public testing::Test {
 protected:
  MergedMatrix Merged(DType type, Precision precision, int threads) {
    ThreadPool pool(threads);
    const HostTensor part{
        "w",
        type,
        {10, 4},
        type == DType::kF32 ? std::as_bytes(std::span(w_)) : std::as_bytes(std::span(half_))};
    const HostTensor* parts = &part;
    const AdaptedRows rows{files_.adapter.Find(kQuery, 6, 4), 4, 6};
    return Merge(std::span(&parts, 1), order_, std::span(&rows, 1), precision, "DIR", pool);
  }

  const TinyModule module_ = RandomModule(kQuery, 6, 4);
  InMemory files_{kConfig, {module_}};
  std::vector<float> w_ = std::vector<float>(40, 0.5f);
  std::vector<std::uint16_t> half_ = std::vector<std::uint16_t>(40, 0x3f00);  // 0.5 in bf16
  std::vector<std::int32_t> order_ = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
};

TEST_F(Merging, AddsTheScaledProductToItsRowsInTheirNewOrder) {
  for (size_t i = 0; i < w_.size(); ++i) w_[i] = static_cast<float>(i);
  const MergedMatrix merged = Merged(DType::kF32, Precision::kMixed, 3);
  ASSERT_EQ(merged.tensor.dtype, DType::kF32);
  std::vector<float> values(40);
  Dequantize(merged.tensor.dtype, merged.tensor.bytes, values);
  for (int row = 0; row < 10; ++row) {
    for (int column = 0; column < 4; ++column) {
      const double product = row < 4 ? 0.0 : 2.0 * module_.Product(row - 4, column);
      EXPECT_NEAR(values[static_cast<size_t>(4 * row + column)], 4 * (9 - row) + column + product,
                  1e-5);
    }
  }
}

TEST_F(Merging, KeepsSixteenBitsInMixedPrecisionOnly) {
  EXPECT_EQ(Merged(DType::kBF16, Precision::kMixed, 1).tensor.dtype, DType::kF16);
  EXPECT_EQ(Merged(DType::kF16, Precision::kMixed, 1).tensor.dtype, DType::kF16);
  half_[3] = 0x4800;  // 131072 in bf16
  EXPECT_EQ(Merged(DType::kBF16, Precision::kMixed, 1).tensor.dtype, DType::kBF16);
  EXPECT_EQ(Merged(DType::kBF16, Precision::kF32, 1).tensor.dtype, DType::kF32);
}

TEST_F(Merging, GivesTheSameBitsWithAnyNumberOfThreads) {
  EXPECT_EQ(Merged(DType::kF32, Precision::kF32, 1).bytes,
            Merged(DType::kF32, Precision::kF32, 4).bytes);
}

TEST_F(Merging, RefusesValuesThatAreNotFinite) {
  w_[7] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { Merged(DType::kF32, Precision::kF32, 2); }),
              AllOf(HasSubstr("DIR"), HasSubstr("'w'"), HasSubstr("not finite")));
}

TEST(MergingEmbeddings, AddsTheProductTransposed) {
  const TinyModule module = RandomModule("model.embed_tokens", 5, 3, 2, true);
  InMemory files(kConfig, {module});
  ThreadPool pool(1);
  const std::vector<float> zeros(15, 0.0f);
  const HostTensor part{"w", DType::kF32, {5, 3}, std::as_bytes(std::span(zeros))};
  const HostTensor* parts = &part;
  const AdaptedRows rows{files.adapter.Find(module.name, 5, 3), 0, 5};
  const MergedMatrix merged =
      Merge(std::span(&parts, 1), {}, std::span(&rows, 1), Precision::kF32, "DIR", pool);
  std::vector<float> values(15);
  Dequantize(merged.tensor.dtype, merged.tensor.bytes, values);
  for (int row = 0; row < 5; ++row) {
    for (int column = 0; column < 3; ++column) {
      EXPECT_NEAR(values[static_cast<size_t>(3 * row + column)], 2.0 * module.Product(row, column),
                  1e-6);
    }
  }
}

}  // namespace
}  // namespace banyan
