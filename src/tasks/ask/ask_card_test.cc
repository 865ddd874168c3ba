// What the model's card changes in rows of ask: who copies, what counts as no answer, how sure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "banyan/ask.h"
#include "banyan/error.h"
#include "support/byte_model.h"
#include "support/error_message.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/task.h"

namespace banyan {
namespace {

std::shared_ptr<Model> ModelWithCard(const std::string& card) {
  using namespace testing_support;
  const TempDirectory directory;
  const TinyShape shape{.family = "qwen3", .vocab = 260, .context = kContext, .seed = 21};
  GgufWriter writer = TinyGgufHeader(shape);
  AddByteVocabulary(shape, {"ab", "abc"}, writer);
  writer.String("banyan.card", card);
  AddTinyTensors(shape, writer);
  writer.Write(directory.path() / "tiny.gguf");
  LoadOptions options;
  options.model = (directory.path() / "tiny.gguf").string();
  options.precision = "f32";
  options.threads = 1;
  return Model::Load(options);
}

InputRow Question() {
  InputRow row;
  row.value = Json{{"id", "a"}, {"context", "Anna lives in Rome."}, {"question", "q"}};
  return row;
}

AskOptions Short() {
  AskOptions options;
  options.instruction = "";
  options.max_new = 8;
  return options;
}

// The row of an answer that says this with the log-probability -1 for every token.
nlohmann::ordered_json RowOf(const std::shared_ptr<Model>& model, const AskOptions& options,
                             const std::string& text) {
  AskTask task(model, options);
  const std::unique_ptr<RecordWork> work = task.Start(Question());
  EXPECT_EQ(work->NextPrompts().size(), 1u);
  Answer answer;
  answer.finish = FinishReason::kStopToken;
  answer.tokens = model->text()->Encode(text, false, false);
  answer.logprobs.assign(answer.tokens.size(), -1.0f);
  work->Take(std::move(answer));
  return work->Rows().at(0).fields;
}

// What the only answer of a record must match; null: anything.
std::shared_ptr<const Constraint> ConstraintFor(const std::shared_ptr<Model>& model,
                                                const AskOptions& options) {
  AskTask task(model, options);
  const std::unique_ptr<RecordWork> work = task.Start(Question());
  const PromptSegment* segment = nullptr;
  const std::vector<PromptSegment> prompts = work->NextPrompts();
  for (segment = &prompts.at(0); segment->answers.empty(); segment = &segment->below.at(0)) {
  }
  return segment->answers.at(0).constraint;
}

constexpr const char* kCalibrated =
    R"({"confidence":{"ask":{"scale":2,"offset":1,"null":{"scale":0,"offset":0}}}})";

TEST(AskCard, RowsHaveTheCalibratedConfidence) {
  const std::shared_ptr<Model> model = ModelWithCard(kCalibrated);
  const auto row = RowOf(model, Short(), "Rome");
  EXPECT_EQ(row["answer"], "Rome");
  EXPECT_EQ(row["confidence"], 0.2689);  // sigmoid(2 * -1 + 1)
  EXPECT_EQ(RowOf(model, Short(), "null")["confidence"], 0.5);
  AskOptions shaped = Short();
  shaped.regex = "[A-Z][a-z]+";
  EXPECT_FALSE(RowOf(model, shaped, "Rome").contains("confidence"));
}

TEST(AskCard, NothingIsClaimedWithoutACalibration) {
  EXPECT_FALSE(RowOf(testing_support::SharedModel(), Short(), "Rome").contains("confidence"));
  AskOptions options = Short();
  options.min_confidence = 0.5;
  EXPECT_THAT(testing_support::ErrorMessage(
                  ErrorKind::kUsage, [&] { AskTask(testing_support::SharedModel(), options); }),
              ::testing::HasSubstr("--min-confidence: the model's card does not say"));
}

// Chat templates of several questions in a row are no prompt.
TEST(AskJob, QuestionsInARowAreRefused) {
  EngineOptions engine;
  engine.strategy = Strategy::kSequential;
  const auto refuse = [&] {
    RunAsk(testing_support::SharedModel(), engine, Short(), JobOptions());
  };
  EXPECT_THAT(testing_support::ErrorMessage(ErrorKind::kUsage, refuse),
              ::testing::HasSubstr("eval.seqbatch"));
}

TEST(AskCard, AnUnsureAnswerIsWithheld) {
  const std::shared_ptr<Model> model = ModelWithCard(kCalibrated);
  AskOptions options = Short();
  options.min_confidence = 0.26;
  EXPECT_EQ(RowOf(model, options, "Rome")["answer"], "Rome");
  options.min_confidence = 0.27;
  const auto row = RowOf(model, options, "Rome");
  EXPECT_EQ(row["answer"], nullptr);
  EXPECT_EQ(row["withheld"], "Rome");
  EXPECT_EQ(row["confidence"], 0.2689);
  EXPECT_FALSE(row.contains("start"));
  EXPECT_FALSE(RowOf(model, options, "null").contains("withheld"));
  // Text that may be withheld is not shown while it is written.
  AskTask task(model, options);
  const std::unique_ptr<RecordWork> work = task.Start(Question());
  work->NextPrompts();
  EXPECT_FALSE(work->IsPlain(0));
}

TEST(AskCard, CopiesWhereTheCardSaysSo) {
  const std::shared_ptr<Model> model = ModelWithCard(R"({"copies":true,"null_text":"none"})");
  AskOptions options = Short();
  const std::shared_ptr<const Constraint> copies = ConstraintFor(model, options);
  ASSERT_NE(copies, nullptr);
  // The model has no chat template: a space stands between prompt and answer.
  EXPECT_TRUE(copies->Matches(" lives in Rome"));
  EXPECT_TRUE(copies->Matches(" none"));
  EXPECT_FALSE(copies->Matches(" null"));
  EXPECT_FALSE(copies->Matches(" Paris"));
  options.copy = false;
  EXPECT_EQ(ConstraintFor(model, options), nullptr);
  options.copy = std::nullopt;
  options.regex = "[0-9]+";
  EXPECT_TRUE(ConstraintFor(model, options)->Matches("12"));
  EXPECT_EQ(ConstraintFor(testing_support::SharedModel(), Short()), nullptr);
  options = Short();
  options.copy = true;
  EXPECT_TRUE(ConstraintFor(testing_support::SharedModel(), options)->Matches(" Rome"));
}

TEST(AskCard, ItsWordForNoAnswerCounts) {
  const std::shared_ptr<Model> model = ModelWithCard(R"({"null_text":"none"})");
  EXPECT_EQ(RowOf(model, Short(), "None.")["answer"], nullptr);
  EXPECT_EQ(RowOf(model, Short(), "null")["answer"], "null");
  EXPECT_TRUE(MayBecomeNothing("No", "none"));
  EXPECT_FALSE(MayBecomeNothing("Nor", "none"));
}

TEST(AskCard, IsAParameterOfTheJob) {
  const Json plain = AskTask(testing_support::SharedModel(), Short()).Parameters();
  EXPECT_EQ(plain["--copy"], false);
  EXPECT_FALSE(plain.contains("model card"));
  const Json copies = AskTask(ModelWithCard(R"({"copies":true})"), Short()).Parameters();
  EXPECT_EQ(copies["--copy"], true);
  EXPECT_TRUE(copies.contains("model card"));
}

}  // namespace
}  // namespace banyan
