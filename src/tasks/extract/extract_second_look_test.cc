// Values that are asked for once more, with answers that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/byte_model.h"
#include "tasks/extract/extract_task.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::shared_ptr<Model> ExtractModelWithCard(const std::string& card) {
  using namespace testing_support;
  const TempDirectory directory;
  const TinyShape shape{.family = "qwen3", .vocab = 260, .context = kContext, .seed = 21};
  GgufWriter writer = TinyGgufHeader(shape);
  AddByteVocabulary(shape, {}, writer);
  writer.String("banyan.card", card);
  AddTinyTensors(shape, writer);
  writer.Write(directory.path() / "tiny.gguf");
  LoadOptions options;
  options.model = (directory.path() / "tiny.gguf").string();
  options.precision = "f32";
  options.threads = 1;
  return Model::Load(options);
}

// A document with one attribute, whose answers the test gives.
class OneValue {
 public:
  OneValue(const std::string& attribute, const std::string& document,
           const std::string& card = "{}")
      : model_(ExtractModelWithCard(card)) {
    ExtractOptions options;
    options.schema = R"({"attributes":[)" + attribute + "]}";
    options.schema_name = "s.json";
    options.instruction = "X";
    task_ = std::make_unique<ExtractTask>(model_, options);
    InputRow input;
    input.value = {{"id", "a"}, {"text", document}};
    work_ = task_->Start(input);
  }

  std::vector<AnswerRequest> Next() {
    std::vector<AnswerRequest> asked;
    for (const PromptSegment& root : work_->NextPrompts()) Gather(root, asked);
    return asked;
  }

  // `value` is JSON; all its tokens together have this log-probability.
  void Give(const AnswerRequest& request, const std::string& value, float logprob) {
    Answer answer;
    answer.tag = request.tag;
    answer.finish = FinishReason::kStopToken;
    answer.tokens = model_->text()->Encode(" " + value, false, false);
    answer.logprobs.assign(answer.tokens.size(), 0.0f);
    answer.logprobs[0] = logprob;
    EXPECT_TRUE(request.constraint->Matches(" " + value)) << value;
    work_->Take(std::move(answer));
  }

  OrderedJson Row() { return work_->Rows().at(0).fields; }

 private:
  void Gather(const PromptSegment& segment, std::vector<AnswerRequest>& asked) {
    asked.insert(asked.end(), segment.answers.begin(), segment.answers.end());
    for (const PromptSegment& below : segment.below) Gather(below, asked);
  }

  std::shared_ptr<Model> model_;
  std::unique_ptr<ExtractTask> task_;
  std::unique_ptr<RecordWork> work_;
};

const char* const kColour = R"({"name":"c","type":"enum","values":["red","green","blue"]})";
const char* const kWeight = R"({"name":"w","type":"number","unit":"kg"})";

TEST(ExtractAgain, AnEnumsLikeliestValueCounts) {
  OneValue value(kColour, "A chair.");
  const auto first = value.Next();
  ASSERT_EQ(first.size(), 1u);
  value.Give(first[0], R"("red")", -0.9f);
  const auto second = value.Next();
  ASSERT_EQ(second.size(), 3u);  // null was not preferred
  value.Give(second[0], R"("red")", -0.9f);
  value.Give(second[1], R"("green")", -0.8f);
  value.Give(second[2], R"("blue")", -3.0f);
  EXPECT_TRUE(value.Next().empty());
  EXPECT_EQ(value.Row()["values"]["c"], "green");
}

TEST(ExtractAgain, AValueWithMostOfTheProbabilityIsNotScoredAgain) {
  OneValue value(kColour, "A chair.");
  value.Give(value.Next().at(0), R"("red")", -0.6f);
  EXPECT_TRUE(value.Next().empty());
  EXPECT_EQ(value.Row()["values"]["c"], "red");
}

TEST(ExtractAgain, ValuesThatTheDocumentDeniesCannotBeWritten) {
  OneValue value(kColour, "A chair, not red. Without any blue.");
  const auto first = value.Next();
  EXPECT_FALSE(first.at(0).constraint->Matches(R"( "red")"));
  EXPECT_TRUE(first.at(0).constraint->Matches(R"( "green")"));
  EXPECT_TRUE(first.at(0).constraint->Matches(" null"));
  value.Give(first[0], R"("green")", -2.0f);
  EXPECT_EQ(value.Next().size(), 1u);
  OneValue none(kColour, "Neither: not red, not green, not blue.");
  none.Give(none.Next().at(0), R"("green")", -0.1f);
  EXPECT_EQ(none.Row()["values"]["c"], nullptr);
  EXPECT_THAT(none.Row()["reasons"]["c"].get<std::string>(), testing::HasSubstr("denies"));
}

TEST(ExtractAgain, ADoubtfulNullIsAskedForWithoutNull) {
  const std::string card = R"({"null_bias":-1.5})";
  OneValue sure(kColour, "A chair.", card);
  sure.Give(sure.Next().at(0), "null", -0.1f);
  EXPECT_TRUE(sure.Next().empty());
  OneValue doubtful(kColour, "A chair.", card);
  doubtful.Give(doubtful.Next().at(0), "null", -0.5f);
  const auto second = doubtful.Next();
  ASSERT_EQ(second.size(), 3u);
  EXPECT_FALSE(second[0].constraint->Matches(" null"));
  OneValue text(R"({"name":"t"})", "A chair.", card);
  text.Give(text.Next().at(0), "null", -0.5f);
  const auto look = text.Next();
  ASSERT_EQ(look.size(), 1u);
  EXPECT_FALSE(look[0].constraint->Matches(" null"));
  text.Give(look[0], R"("chair")", -1.0f);
  EXPECT_EQ(text.Row()["values"]["t"], "chair");
}

TEST(ExtractConfidence, WhatIsHardlyEverRightIsNullWhereTheModelKnows) {
  const std::string card =
      R"({"confidence":{"extract":{"feature":"log_odds","scale":1.0,"offset":0.0}}})";
  const auto written = [](const std::string& attribute, const std::string& own, float logprob) {
    OneValue value(attribute, "A chair.", own);
    value.Give(value.Next().at(0), R"("chair")", logprob);
    return value.Row();
  };
  const OrderedJson unlikely = written(R"({"name":"t"})", card, -4.0f);
  EXPECT_EQ(unlikely["values"]["t"], nullptr);
  EXPECT_EQ(unlikely["raw"]["t"], "chair");
  EXPECT_THAT(unlikely["reasons"]["t"].get<std::string>(), testing::HasSubstr("is below 0.05"));
  EXPECT_EQ(written(R"({"name":"t"})", card, -2.0f)["values"]["t"], "chair");
  EXPECT_EQ(written(R"({"name":"t","nullable":false})", card, -4.0f)["values"]["t"], "chair");
  EXPECT_EQ(written(R"({"name":"t"})", "{}", -4.0f)["values"]["t"], "chair");
}

TEST(ExtractAgain, AmongTextsThatHaveANumberWhenTheFirstHasNone) {
  OneValue value(kWeight, "Weighs little: 1.35 kg, 3 m long.");
  const auto first = value.Next();
  value.Give(first.at(0), R"("little")", -0.1f);
  const auto second = value.Next();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_TRUE(second[0].constraint->Matches(R"( "1.35 kg")"));
  EXPECT_TRUE(second[0].constraint->Matches(" null"));
  EXPECT_FALSE(second[0].constraint->Matches(R"( "little")"));
  EXPECT_FALSE(second[0].constraint->Matches(R"( "3 m")"));
  value.Give(second[0], R"("1.35 kg")", -1.0f);
  EXPECT_EQ(value.Row()["values"]["w"], 1.35);
  EXPECT_EQ(value.Row()["raw"]["w"], "1.35 kg");
  EXPECT_FALSE(value.Row().contains("reasons"));
}

TEST(ExtractAgain, ATextWithoutANumberStaysTheReason) {
  OneValue value(kWeight, "Weighs little.");
  value.Give(value.Next().at(0), R"("little")", -0.1f);
  EXPECT_TRUE(value.Next().empty());  // nothing to choose among
  EXPECT_EQ(value.Row()["values"]["w"], nullptr);
  OneValue refused(kWeight, "Weighs little, 2 kg.");
  refused.Give(refused.Next().at(0), R"("little")", -0.1f);
  refused.Give(refused.Next().at(0), "null", -0.1f);
  EXPECT_EQ(refused.Row()["values"]["w"], nullptr);
  EXPECT_EQ(refused.Row()["raw"]["w"], "little");
  OneValue unsure(kWeight, "Weighs little, 2 kg.");
  unsure.Give(unsure.Next().at(0), R"("little")", -0.1f);
  unsure.Give(unsure.Next().at(0), R"("2 kg")", -3.0f);
  EXPECT_EQ(unsure.Row()["values"]["w"], nullptr);
  EXPECT_EQ(unsure.Row()["raw"]["w"], "little");
}

}  // namespace
}  // namespace banyan
