// Questions that are asked in stages, with answers that are made up: about null once more, with and
// without the document, in parts and then the best passages together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/byte_model.h"
#include "tasks/ask/ask_task.h"

namespace banyan {
namespace {

std::shared_ptr<Model> CopyingModel(const std::string& more) {
  using namespace testing_support;
  const TempDirectory directory;
  const TinyShape shape{.family = "qwen3", .vocab = 260, .context = kContext, .seed = 21};
  GgufWriter writer = TinyGgufHeader(shape);
  AddByteVocabulary(shape, {"ab", "abc"}, writer);
  writer.String("banyan.card", R"({"copies":true)" + more + "}");
  AddTinyTensors(shape, writer);
  writer.Write(directory.path() / "tiny.gguf");
  LoadOptions options;
  options.model = (directory.path() / "tiny.gguf").string();
  options.precision = "f32";
  options.threads = 1;
  return Model::Load(options);
}

// A record on its way, whose answers the test gives.
class Stages {
 public:
  Stages(const std::shared_ptr<Model>& model, AskOptions options, Json row) : model_(model) {
    options.instruction = "";
    if (options.max_new == 64) options.max_new = 8;
    task_ = std::make_unique<AskTask>(model, options);
    InputRow input;
    input.value = std::move(row);
    work_ = task_->Start(input);
  }

  // The answers that are asked for next, in order; their prompts' texts are in `prompts`.
  std::vector<AnswerRequest> Next() {
    std::vector<AnswerRequest> asked;
    prompts.clear();
    for (const PromptSegment& root : work_->NextPrompts()) Gather(root, {}, asked);
    return asked;
  }

  // Every token has this log-probability.
  void Give(const AnswerRequest& request, const std::string& text, float logprob) {
    Answer answer;
    answer.tag = request.tag;
    answer.finish = FinishReason::kStopToken;
    answer.tokens = model_->text()->Encode(text, false, false);
    answer.logprobs.assign(answer.tokens.size(), logprob);
    work_->Take(std::move(answer));
  }

  nlohmann::ordered_json Row() { return work_->Rows().at(0).fields; }
  RecordWork& work() { return *work_; }

  std::vector<std::string> prompts;

 private:
  void Gather(const PromptSegment& segment, std::vector<TokenId> path,
              std::vector<AnswerRequest>& asked) {
    path.insert(path.end(), segment.tokens.begin(), segment.tokens.end());
    for (const AnswerRequest& answer : segment.answers) {
      asked.push_back(answer);
      prompts.push_back(model_->text()->Decode(path, false));
    }
    for (const PromptSegment& below : segment.below) Gather(below, path, asked);
  }

  std::shared_ptr<Model> model_;
  std::unique_ptr<AskTask> task_;
  std::unique_ptr<RecordWork> work_;
};

Json Rome() { return {{"id", "a"}, {"context", "Anna lives in Rome."}, {"question", "q"}}; }

TEST(AskNullBias, ANullThatIsTooWeakGivesWayToTheBestAnswer) {
  for (const auto& [other, expected] : {std::pair<float, Json>(-2.4f, "Rome"), {-2.6f, nullptr}}) {
    Stages stages(CopyingModel(R"(,"null_bias":-1.5)"), {}, Rome());
    const auto first = stages.Next();
    ASSERT_EQ(first.size(), 1u);
    EXPECT_TRUE(first[0].constraint->Matches(" null"));
    stages.Give(first[0], "null", -1.0f);
    EXPECT_FALSE(stages.work().IsAnswered(0));
    const auto second = stages.Next();
    ASSERT_EQ(second.size(), 1u);
    EXPECT_FALSE(second[0].constraint->Matches(" null"));
    EXPECT_TRUE(second[0].constraint->Matches(" Rome"));
    EXPECT_FALSE(stages.work().IsPlain(second[0].tag));
    stages.Give(second[0], "Rome", other);
    EXPECT_TRUE(stages.work().IsAnswered(0));
    EXPECT_TRUE(stages.Next().empty());
    EXPECT_EQ(Json(stages.Row()["answer"]), expected) << other;
  }
}

TEST(AskNullBias, NothingIsAskedTwiceThatCannotTurn) {
  // All other answers together have log(1 - exp(-0.01)) = -4.6.
  Stages sure(CopyingModel(R"(,"null_bias":-1.5)"), {}, Rome());
  sure.Give(sure.Next().at(0), "null", -0.01f);
  EXPECT_TRUE(sure.Next().empty());
  EXPECT_EQ(sure.Row()["answer"], nullptr);
  Stages answered(CopyingModel(R"(,"null_bias":-1.5)"), {}, Rome());
  answered.Give(answered.Next().at(0), "Rome", -5.0f);
  EXPECT_TRUE(answered.Next().empty());
  Stages unbiased(CopyingModel(""), {}, Rome());
  unbiased.Give(unbiased.Next().at(0), "null", -5.0f);
  EXPECT_TRUE(unbiased.Next().empty());
}

TEST(AskNullBias, AnAnswerThatIsTooWeakGivesWayToNull) {
  for (const auto& [null, expected] : {std::pair<float, Json>(-2.4f, nullptr), {-2.6f, "Rome"}}) {
    Stages stages(CopyingModel(R"(,"null_bias":1.5)"), {}, Rome());
    const auto first = stages.Next();
    const std::uint64_t tag = first.at(0).tag;
    ASSERT_TRUE(stages.work().IsPlain(tag));
    EXPECT_FALSE(stages.work().ShowRules(tag).sure);  // it may turn out to be none
    stages.work().Hear(tag, std::vector<float>{-1.0f});
    EXPECT_FALSE(stages.work().ShowRules(tag).sure);
    stages.Give(first.at(0), "Rome", -1.0f);
    const auto second = stages.Next();
    ASSERT_EQ(second.size(), 1u);
    EXPECT_EQ(second[0].forced.size(), 5u);  // a space, n u l l
    stages.Give(second[0], "null", null);
    EXPECT_EQ(Json(stages.Row()["answer"]), expected) << null;
  }
}

TEST(AskNullBias, AnAnswerThatCannotGiveWayIsShownFromItsFirstToken) {
  // All others together have log(1 - exp(-0.1)) = -2.35: with a bias of 1.5 that is less than -0.1.
  Stages stages(CopyingModel(R"(,"null_bias":1.5)"), {}, Rome());
  const auto first = stages.Next();
  const std::uint64_t tag = first.at(0).tag;
  stages.work().Hear(tag, std::vector<float>{-0.1f});
  stages.work().Hear(tag, std::vector<float>{-3.0f});  // later tokens do not count
  EXPECT_TRUE(stages.work().ShowRules(tag).sure);
  EXPECT_TRUE(stages.work().ShowRules(tag).whole_words);
  stages.Give(first.at(0), "Rome", -0.1f);
  EXPECT_TRUE(stages.Next().empty());
  EXPECT_EQ(stages.Row()["answer"], "Rome");
  // Without copies nothing gives way.
  AskOptions free;
  free.copy = false;
  Stages written(CopyingModel(R"(,"null_bias":1.5)"), free, Rome());
  const auto rules = written.work().ShowRules(written.Next().at(0).tag);
  EXPECT_TRUE(rules.sure);
  EXPECT_FALSE(rules.whole_words);
}

TEST(AskChoice, ThePriorIsAskedWithoutTheDocument) {
  AskOptions options;
  options.choice_score = ChoiceScore::kPrior;
  Json row = Rome();
  row["choices"] = {"yes", "no"};
  Stages stages(testing_support::SharedModel(), options, row);
  const auto asked = stages.Next();
  ASSERT_EQ(asked.size(), 4u);
  std::vector<size_t> with, without;
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool document = stages.prompts[i].find("Rome") != std::string::npos;
    (document ? with : without).push_back(i);
  }
  ASSERT_EQ(with.size(), 2u);
  // " yes" has four tokens, " no" three: yes is likelier with the document, and more so without.
  stages.Give(asked[with[0]], " yes", -1.0f);
  stages.Give(asked[with[1]], " no", -2.0f);
  stages.Give(asked[without[0]], " yes", -0.5f);
  stages.Give(asked[without[1]], " no", -3.0f);
  const auto found = stages.Row();
  EXPECT_EQ(found["answer"], "no");  // -6 + 9 against -4 + 2
  EXPECT_EQ(found["choice"], 1);
  EXPECT_EQ(found["scores"]["prior"], (Json{-2.0, -9.0}));
  EXPECT_EQ(found["probabilities"], (Json{0.0067, 0.9933}));  // 1 / (1 + exp(5))
}

TEST(AskChoice, ConfidenceComesFromTheCalibrationOfTheWayOfComparing) {
  const std::shared_ptr<Model> model =
      CopyingModel(R"(,"confidence":{"ask":{"scale":9,"offset":9,)"
                   R"("choice-sum":{"feature":"log_odds","scale":0.5,"offset":0}}})");
  Json row = Rome();
  row["choices"] = {"yes", "no"};
  for (const auto& [score, least] :
       {std::pair(ChoiceScore::kSum, 0.0), {ChoiceScore::kSum, 0.9}, {ChoiceScore::kMean, 0.0}}) {
    AskOptions options;
    options.choice_score = score;
    options.min_confidence = least;
    Stages stages(model, options, row);
    const auto asked = stages.Next();
    stages.Give(asked.at(0), " yes", -0.5f);  // 4 tokens: -2
    stages.Give(asked.at(1), " no", -2.0f);   // 3 tokens: -6
    const auto found = stages.Row();
    // A share of 1 / (1 + exp(-4)) has log-odds 4; half of them are sigmoid(2).
    EXPECT_EQ(found.contains("confidence"), score == ChoiceScore::kSum);
    if (score == ChoiceScore::kSum) {
      EXPECT_EQ(found["confidence"], 0.8808);
    }
    EXPECT_EQ(Json(found["answer"]), least > 0.5 ? Json() : Json("yes"));
    EXPECT_EQ(found.contains("withheld"), least > 0.5);
  }
}

TEST(AskChoice, ACardThatSaysSoChoosesByLetterWhereLettersSuffice) {
  const std::shared_ptr<Model> model =
      CopyingModel(R"(,"choices":"letter","confidence":{"ask":{"choice-letter":)"
                   R"({"feature":"log_odds","scale":1,"offset":0}}})");
  const auto shows_letters = [&](size_t choices, auto change) {
    Json row = Rome();
    row["choices"] = Json::array();
    for (size_t i = 0; i < choices; ++i) row["choices"].push_back("option " + std::to_string(i));
    AskOptions options;
    change(options);
    Stages stages(model, options, row);
    const auto asked = stages.Next();
    return stages.prompts.at(0).find("B. option 1") != std::string::npos;
  };
  EXPECT_TRUE(shows_letters(2, [](AskOptions&) {}));
  EXPECT_FALSE(shows_letters(27, [](AskOptions&) {}));
  EXPECT_FALSE(shows_letters(2, [](AskOptions& o) { o.choices = ChoiceMode::kScore; }));
  EXPECT_FALSE(shows_letters(2, [](AskOptions& o) { o.choice_score = ChoiceScore::kMean; }));
  EXPECT_TRUE(AskTask(model, {}).rates_choices());
}

// Paragraphs of one sentence each, more than the window of 300 tokens (bytes) holds.
std::string LongText() {
  std::string text;
  for (const char* name : {"Anna", "Bert", "Carl", "Dora", "Emil", "Fine", "Gerd", "Hans"}) {
    text += std::string(name) + " was the keeper of the house at the river, and " + name +
            " liked it there a lot.\n\n";
  }
  return text + "The key is 42.";
}

TEST(AskParts, EndWithParagraphsAndOverlap) {
  AskOptions options;
  options.too_long = TooLong::kSplit;
  const std::string text = LongText();
  Stages stages(CopyingModel(""), options, {{"id", "a"}, {"context", text}, {"question", "Who?"}});
  const auto asked = stages.Next();
  ASSERT_GE(asked.size(), 3u);
  size_t covered = 0;
  for (size_t i = 0; i < asked.size(); ++i) {
    const std::string& prompt = stages.prompts[i];
    const std::string part = prompt.substr(0, prompt.find("\n\nQuestion:"));
    const size_t begin = text.find(part.substr(0, 100), covered > 150 ? covered - 150 : 0);
    ASSERT_NE(begin, std::string::npos) << part;
    if (i > 0) {
      EXPECT_LT(begin, covered) << i;  // they overlap
      EXPECT_TRUE(text.substr(0, begin).ends_with('\n') || text[begin - 1] == ' ') << part;
    }
    covered = begin + part.size();
  }
  EXPECT_EQ(covered, text.size());
}

TEST(AskParts, PlacesAreThoseOfTheWholeAndTheSurestCounts) {
  AskOptions options;
  options.too_long = TooLong::kSplit;
  Stages stages(CopyingModel(R"(,"confidence":{"ask":{"scale":1,"offset":1}})"), options,
                {{"id", "a"}, {"context", LongText()}, {"question", "Who?"}});
  const auto asked = stages.Next();
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool last = i + 1 == asked.size();
    stages.Give(asked[i], last ? "42" : i == 1 ? "keeper" : "null", last ? -0.5f : -1.5f);
  }
  EXPECT_TRUE(stages.Next().empty());
  const auto row = stages.Row();
  EXPECT_EQ(row["answer"], "42");
  EXPECT_EQ(row["start"], LongText().find("42"));
  EXPECT_EQ(row["part"], asked.size() - 1);
  EXPECT_EQ(row["confidence"], 0.6225);
  ASSERT_EQ(row["candidates"].size(), 2u);
  EXPECT_EQ(row["candidates"][1]["answer"], "keeper");
  EXPECT_GT(row["candidates"][1]["start"], LongText().find("Anna"));
}

TEST(AskParts, TheBestPassagesAreReadTogether) {
  AskOptions options;
  options.too_long = TooLong::kSplit;
  options.reduce = true;
  Stages stages(CopyingModel(""), options,
                {{"id", "a"}, {"context", LongText()}, {"question", "Who?"}});
  const auto asked = stages.Next();
  for (size_t i = 0; i < asked.size(); ++i) {
    const bool last = i + 1 == asked.size();
    stages.Give(asked[i], last ? "42" : i == 0 ? "Anna" : "null", -1.0f);
  }
  EXPECT_FALSE(stages.work().IsAnswered(0));
  const auto second = stages.Next();
  ASSERT_EQ(second.size(), 1u);
  EXPECT_THAT(stages.prompts[0], ::testing::HasSubstr("Anna"));
  EXPECT_THAT(stages.prompts[0], ::testing::HasSubstr("42"));
  EXPECT_TRUE(second[0].constraint->Matches(" key is 42"));
  stages.Give(second[0], "key is 42", -1.0f);
  const auto row = stages.Row();
  EXPECT_EQ(row["answer"], "key is 42");
  EXPECT_EQ(row["reduced"], true);
  EXPECT_EQ(row["start"], LongText().find("key is 42"));
}

constexpr const char* kSure = R"(,"confidence":{"ask":{"scale":1,"offset":1}})";

// A long record whose last part answers 42 with this log-probability, asked once more with
// --reduce.
Stages Reducing(const std::shared_ptr<Model>& model, float logprob) {
  AskOptions options;
  options.too_long = TooLong::kSplit;
  options.reduce = true;
  Stages stages(model, options, {{"id", "a"}, {"context", LongText()}, {"question", "Who?"}});
  const auto asked = stages.Next();
  for (size_t i = 0; i < asked.size(); ++i) {
    stages.Give(asked[i], i + 1 == asked.size() ? "42" : "null", logprob);
  }
  return stages;
}

TEST(AskParts, TheSurerOfBestPartAndPassagesCounts) {
  const std::shared_ptr<Model> model = CopyingModel(kSure);
  for (const auto& [text, logprob, expected] :
       {std::tuple<const char*, float, Json>("key is 42", -1.1f, "42"),
        {"key is 42", -0.9f, "key is 42"},
        {"null", -0.9f, nullptr},
        {"null", -1.1f, "42"}}) {
    Stages stages = Reducing(model, -1.0f);
    const auto second = stages.Next();
    ASSERT_EQ(second.size(), 1u);
    stages.Give(second[0], text, logprob);
    const auto row = stages.Row();
    EXPECT_EQ(Json(row["answer"]), expected) << text << logprob;
    EXPECT_EQ(row.contains("reduced"), logprob > -1.0f);
    EXPECT_EQ(row.contains("part"), logprob < -1.0f);
    // Where what was read stands in the document.
    ASSERT_EQ(row["read"].size(), 1u);
    EXPECT_LE(row["read"][0]["start"], LongText().find("42"));
    EXPECT_EQ(row["read"][0]["end"], LongText().size());
  }
}

TEST(AskParts, WithoutACalibrationPassagesCountUnlessTheySayNull) {
  for (const char* text : {"key is 42", "null"}) {
    Stages stages = Reducing(CopyingModel(""), -1.0f);
    stages.Give(stages.Next().at(0), text, -5.0f);
    EXPECT_EQ(stages.Row()["answer"], text == std::string("null") ? "42" : text);
  }
}

TEST(AskParts, ANullOfAllPartsIsAsSureAsTheLeastSure) {
  AskOptions options;
  options.too_long = TooLong::kSplit;
  Stages stages(CopyingModel(kSure), options,
                {{"id", "a"}, {"context", LongText()}, {"question", "Who?"}});
  const auto asked = stages.Next();
  for (size_t i = 0; i < asked.size(); ++i) {
    stages.Give(asked[i], "null", i == 1 ? -2.0f : -0.1f);
  }
  const auto row = stages.Row();
  EXPECT_EQ(row["answer"], nullptr);
  EXPECT_EQ(row["confidence"], 0.2689);  // sigmoid(1 - 2)
  EXPECT_EQ(row["part"], 1);
}

TEST(AskParts, ShortOnesAreAskedFor) {
  AskOptions options;
  options.too_long = TooLong::kSplit;
  options.part_tokens = 20;
  Stages stages(CopyingModel(""), options,
                {{"id", "a"},
                 {"context", "The first has ten. The second has nine. The third has eight."},
                 {"question", "Who?"}});
  EXPECT_GT(stages.Next().size(), 2u);
}

}  // namespace
}  // namespace banyan
