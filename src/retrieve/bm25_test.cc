#include "retrieve/bm25.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "retrieve/retriever.h"

namespace banyan {
namespace {

using Words = std::vector<std::string>;

// Scores of the Python package bm25s on the same words.
TEST(Bm25, ScoresAsBm25sDoes) {
  std::ifstream file(BANYAN_SOURCE_DIR "/tests/data/retrieve/bm25.json");
  const Json fixture = Json::parse(file);
  const auto documents = fixture.at("docs").get<std::vector<Words>>();
  const Bm25 bm25(documents, Bm25Options());
  ASSERT_EQ(fixture.at("queries").size(), fixture.at("scores").size());
  int above_zero = 0;
  for (size_t q = 0; q < fixture.at("queries").size(); ++q) {
    const std::vector<float> scores = bm25.Scores(fixture.at("queries")[q].get<Words>());
    const auto expected = fixture.at("scores")[q].get<std::vector<double>>();
    ASSERT_EQ(scores.size(), expected.size());
    for (size_t d = 0; d < scores.size(); ++d) {
      EXPECT_NEAR(scores[d], expected[d], 1e-6) << "query " << q << ", document " << d;
      above_zero += scores[d] > 0.0f ? 1 : 0;
    }
  }
  EXPECT_GT(above_zero, 30);
}

TEST(Bm25, IsTheSameAfterAFile) {
  const std::vector<Words> documents = {{"a", "b", "a"}, {"b"}, {}, {"c", "a"}};
  const Bm25 made(documents, Bm25Options());
  const Bm25 read = Bm25::FromWords(4, made.Words());
  const Words query = {"a", "c", "a"};
  EXPECT_EQ(read.Scores(query), made.Scores(query));
  EXPECT_EQ(made.Words().size(), 3u);
}

TEST(Bm25, NothingIsFoundOfNothing) {
  EXPECT_TRUE(Bm25({}, Bm25Options()).Scores(Words{"a"}).empty());
  const std::vector<Words> empty(3);
  EXPECT_EQ(Bm25(empty, Bm25Options()).Scores(Words{"a"}), std::vector<float>(3, 0.0f));
}

TEST(Bm25, TheBestComeFirstAndEqualOnesInOrder) {
  const std::vector<float> scores = {0.0f, 2.0f, 1.0f, 2.0f, 3.0f};
  std::vector<int> found;
  for (const ScoredDocument& best : BestDocuments(scores, 3)) found.push_back(best.document);
  EXPECT_EQ(found, (std::vector<int>{4, 1, 3}));
  EXPECT_EQ(BestDocuments(scores, 9).size(), 4u);  // what shares no word is not found
}

TEST(Words, AreComparedInLowerCase) {
  EXPECT_EQ(WordsOf("The Café's 2nd door, KT-4821!"),
            (Words{"the", "café", "s", "2nd", "door", "kt", "4821"}));
  EXPECT_EQ(WordsOf("ÄÖ 漢字x"), (Words{"äö", "漢", "字", "x"}));
  EXPECT_TRUE(WordsOf(" …\xFF ").empty());
}

TEST(Relevance, IsAsDefined) {
  EXPECT_DOUBLE_EQ(RelevanceOfCosine(0.5), 0.75);
  EXPECT_EQ(RelevanceOfCosine(-1.0), 1e-8);
  EXPECT_EQ(RelevanceOfCosine(1.0), 1.0 - 1e-8);
  EXPECT_DOUBLE_EQ(RelevanceOfSparse(1.0), 0.5);
  EXPECT_EQ(RelevanceOfSparse(-3.0), 1e-8);
  EXPECT_DOUBLE_EQ(RelevanceOfBm25(8.0), 0.5);
  EXPECT_EQ(RelevanceOfBm25(0.0), 1e-8);
  EXPECT_DOUBLE_EQ(RelevanceOfLogit(0.0), 0.5);
  EXPECT_NEAR(FusedRelevance(0.5, 0.25), 2.0 * 0.125 / 0.75, 1e-8);
}

}  // namespace
}  // namespace banyan
