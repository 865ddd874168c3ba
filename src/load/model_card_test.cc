// What cards say, what is refused in them, and whose card counts.
#include "load/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "banyan/error.h"
#include "banyan/model.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"
#include "support/temp_directory.h"
#include "support/tiny_adapter.h"
#include "support/tiny_model.h"

namespace banyan {
namespace {

using ::testing::HasSubstr;
using testing_support::TempDirectory;
using testing_support::TinyShape;

TEST(ModelCard, SaysWhatItSays) {
  const ModelCard card = ReadModelCard(
      R"({"copies":true,"null_text":"none","null_bias":-0.5,"choices":"letter",
          "title":"unknown to us","confidence":
          {"ask":{"scale":2,"offset":1.5,"feature":"sum_logprob","null":{"scale":3,"offset":0}},
           "extract":{"text":{"scale":1,"offset":-1},"number":{"scale":4,"offset":0.25}}}})",
      "here");
  EXPECT_TRUE(card.copies);
  EXPECT_EQ(card.null_text, "none");
  EXPECT_EQ(card.null_bias, -0.5);
  EXPECT_TRUE(card.chooses_by_letter);
  EXPECT_EQ(card.CalibrationOf("ask")->feature, Calibration::Feature::kSumLogprob);
  EXPECT_EQ(card.CalibrationOf("ask", "answer"), card.CalibrationOf("ask"));
  EXPECT_EQ(card.CalibrationOf("ask", "null")->scale, 3.0);
  EXPECT_EQ(card.CalibrationOf("extract", "number")->offset, 0.25);
  EXPECT_EQ(card.CalibrationOf("extract", "number")->feature, Calibration::Feature::kMeanLogprob);
  EXPECT_EQ(card.CalibrationOf("extract", "date"), nullptr);
  EXPECT_EQ(card.CalibrationOf("rag"), nullptr);
  EXPECT_EQ(ReadModelCard(card.ToJson(), "again").ToJson(), card.ToJson());
}

TEST(ModelCard, AnEmptyOneClaimsNothing) {
  for (const char* text : {"{}", R"({"copies":null,"confidence":{"ask":null},"null_bias":null})"}) {
    const ModelCard card = ReadModelCard(text, "here");
    EXPECT_FALSE(card.copies) << text;
    EXPECT_EQ(card.null_text, "null");
    EXPECT_EQ(card.null_bias, std::nullopt);
    EXPECT_EQ(card.CalibrationOf("ask"), nullptr);
  }
}

TEST(ModelCard, RefusesWrongTypesWithTheirPlace) {
  const auto refusal = [](const char* text) {
    return testing_support::ErrorMessage(ErrorKind::kFormat,
                                         [&] { ReadModelCard(text, "m/banyan.json"); });
  };
  EXPECT_EQ(refusal("[]"), "m/banyan.json: expected an object, found array");
  EXPECT_EQ(refusal(R"({"copies":"yes"})"),
            "m/banyan.json: 'copies': expected true or false, found string");
  EXPECT_THAT(refusal(R"({"null_text":""})"), HasSubstr("'null_text': expected one line"));
  EXPECT_THAT(refusal(R"({"null_text":"a\nb"})"), HasSubstr("'null_text': expected one line"));
  EXPECT_EQ(refusal(R"({"choices":"number"})"),
            "m/banyan.json: 'choices': expected letter or score, found 'number'");
  EXPECT_THAT(refusal(R"({"null_bias":"0"})"), HasSubstr("'null_bias': expected a number"));
  EXPECT_THAT(refusal(R"({"confidence":3})"), HasSubstr("'confidence': expected an object"));
  EXPECT_EQ(refusal(R"({"confidence":{"extract":{"text":{"scale":1}}}})"),
            "m/banyan.json: 'confidence': 'extract': 'text': 'offset' is missing");
  EXPECT_EQ(refusal(R"({"confidence":{"ask":{"scale":"1","offset":0}}})"),
            "m/banyan.json: 'confidence': 'ask': 'scale': expected a number, found string");
  EXPECT_THAT(
      refusal(R"({"confidence":{"ask":{"scale":1,"offset":0,"feature":"length"}}})"),
      HasSubstr("'feature': expected mean_logprob, sum_logprob or log_odds, found 'length'"));
  EXPECT_THAT(refusal(R"({"confidence":{"extract":{"text":5}}})"),
              HasSubstr("'text': expected an object, found number"));
  EXPECT_THAT(refusal("{"), HasSubstr("m/banyan.json: not valid JSON"));
}

TEST(ModelCard, ProbabilitiesAreSigmoidsOfTheFeature) {
  Calibration calibration;
  calibration.scale = 2.0;
  calibration.offset = 1.0;
  const std::vector<float> logprobs = {-1.0f, -2.0f};
  EXPECT_DOUBLE_EQ(calibration.Probability(logprobs), 1.0 / (1.0 + std::exp(2.0)));
  calibration.feature = Calibration::Feature::kSumLogprob;
  EXPECT_DOUBLE_EQ(calibration.Probability(logprobs), 1.0 / (1.0 + std::exp(5.0)));
  calibration.feature = Calibration::Feature::kLogOdds;
  calibration.scale = 1.0;
  calibration.offset = 0.0;
  EXPECT_NEAR(calibration.ProbabilityOf(std::log(0.8), 3), 0.8, 1e-12);  // says what the model says
  EXPECT_NEAR(calibration.ProbabilityOf(0.0, 1), 1.0, 1e-5);
  EXPECT_LT(calibration.ProbabilityOf(-1e9, 1), 1e-12);
  calibration.scale = 2.0;
  calibration.offset = 1.0;
  EXPECT_EQ(calibration.Probability(-1e9), 0.0);
  EXPECT_EQ(calibration.Probability(1e9), 1.0);
  EXPECT_EQ(calibration.Probability(-std::numeric_limits<double>::infinity()), 0.0);
  calibration.scale = 0.0;
  EXPECT_DOUBLE_EQ(calibration.Probability(-std::numeric_limits<double>::infinity()),
                   1.0 / (1.0 + std::exp(-1.0)));
}

std::shared_ptr<Model> LoadTiny(LoadOptions options, const std::filesystem::path& model) {
  options.model = model.string();
  options.precision = "f32";
  options.threads = 1;
  return Model::Load(options);
}

TEST(ModelCard, TheAdaptersCountsInsteadOfTheModels) {
  const TempDirectory directory;
  const TinyShape shape;
  const auto model = testing_support::WriteTinyHuggingFace(shape, directory.path() / "hf");
  const auto adapter = [&](const char* name) {
    return testing_support::WriteTinyAdapter(
               testing_support::LoraConfig(R"("r":2,"lora_alpha":2,"target_modules":["o_proj"])"),
               {testing_support::RandomModule("model.layers.0.self_attn.o_proj", shape.hidden,
                                              shape.heads * shape.head_dim)},
               directory.path() / name)
        .string();
  };
  const std::string with_card = adapter("with"), without_card = adapter("without");
  directory.Write("with/banyan.json", R"({"null_bias":0.25})");
  EXPECT_FALSE(LoadTiny({}, model)->card().copies);
  const std::string fingerprint = LoadTiny({}, model)->fingerprint();
  directory.Write("hf/banyan.json", R"({"copies":true,"null_bias":0.75,
      "confidence":{"ask":{"scale":1,"offset":0}}})");
  LoadOptions options;
  options.adapters = {{"with", with_card}, {"without", without_card}};
  const std::shared_ptr<Model> apart = LoadTiny(options, model);
  EXPECT_TRUE(apart->card().copies);
  EXPECT_EQ(apart->card().null_bias, 0.75);
  EXPECT_FALSE(apart->card("with").copies);
  EXPECT_EQ(apart->card("with").null_bias, 0.25);
  EXPECT_TRUE(apart->card("without").copies);
  EXPECT_EQ(apart->card("without").null_bias, std::nullopt);
  EXPECT_EQ(apart->card("without").CalibrationOf("ask"), nullptr);
  EXPECT_THROW(apart->card("another"), Error);
  LoadOptions merged;
  merged.adapter = with_card;
  EXPECT_EQ(LoadTiny(merged, model)->card().null_bias, 0.25);
  // It is the same model, with keys and values of the same names.
  EXPECT_EQ(LoadTiny({}, model)->fingerprint(), fingerprint);
  EXPECT_THAT(FilesOfModel(model.string()), testing::Contains((model / "banyan.json").string()));
}

TEST(ModelCard, StandsInTheMetadataOfAGguf) {
  const TempDirectory directory;
  const auto write = [&](const char* name, const char* card) {
    testing_support::GgufWriter writer = testing_support::TinyGgufHeader({});
    if (card != nullptr) writer.String("banyan.card", card);
    testing_support::AddTinyTensors({}, writer);
    writer.Write(directory.path() / name);
    return directory.path() / name;
  };
  const std::shared_ptr<Model> plain = LoadTiny({}, write("plain.gguf", nullptr));
  const std::shared_ptr<Model> copies = LoadTiny({}, write("copies.gguf", R"({"copies":true})"));
  EXPECT_FALSE(plain->card().copies);
  EXPECT_TRUE(copies->card().copies);
  EXPECT_EQ(plain->fingerprint(), copies->fingerprint());
  EXPECT_THAT(DescribeModel((directory.path() / "copies.gguf").string()).card,
              HasSubstr(R"("copies":true)"));
  EXPECT_EQ(DescribeModel((directory.path() / "plain.gguf").string()).card, "");
  const auto bad = write("bad.gguf", R"({"copies":1})");
  EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kFormat, [&] { LoadTiny({}, bad); }),
              HasSubstr("bad.gguf: 'banyan.card': 'copies': expected true or false"));
}

}  // namespace
}  // namespace banyan
