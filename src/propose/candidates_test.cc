#include "propose/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace banyan {

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

FoundLabel Label(std::string name, std::string value, std::int64_t start) {
  const auto end = start + static_cast<std::int64_t>(value.size());
  return {std::move(name), std::move(value), {start, end}};
}

std::optional<SampleValue> Value(std::string text, double confidence, std::int64_t start) {
  const auto end = start + static_cast<std::int64_t>(text.size());
  return SampleValue{std::move(text), confidence, {start, end}, false};
}

AttributeCandidate Candidate(std::string name, std::vector<std::optional<SampleValue>> values) {
  AttributeCandidate candidate;
  candidate.name = std::move(name);
  candidate.values = std::move(values);
  return candidate;
}

std::vector<std::string> Names(const std::vector<AttributeCandidate>& candidates) {
  std::vector<std::string> names;
  for (const AttributeCandidate& candidate : candidates) names.push_back(candidate.name);
  return names;
}

TEST(CandidatesTest, LabelsOfSeveralDocumentsComeFirst) {
  CandidateRequest request;
  request.labels = {{Label("Mood", "good", 0), Label("Once", "1", 9)}, {Label("MOODS", "bad", 0)}};
  request.names = {"given"};
  EXPECT_THAT(Names(MakeCandidates(request)), ElementsAre("given", "Mood"));
  EXPECT_EQ(MakeCandidates(request)[1].label_documents, 2u);
}

TEST(CandidatesTest, SpellingsOfOneEntryAreOneCandidate) {
  CandidateRequest request;
  request.kinds = {FindLexiconKind("invoice")};
  request.labels = {{Label("Rechnungsnummer", "7", 0)}, {Label("Invoice no.", "8", 0)}};
  const std::vector<AttributeCandidate> made = MakeCandidates(request);
  EXPECT_EQ(made[0].name, "invoice number");
  EXPECT_EQ(made[0].coverage(), 2u);
  // Two labels of one document are two attributes.
  request.labels = {{Label("Total", "7", 0), Label("Amount due", "5", 9)},
                    {Label("Total", "8", 0), Label("Amount due", "6", 9)}};
  EXPECT_THAT(Names(MakeCandidates(request)), testing::IsSupersetOf({"Total", "Amount due"}));
}

TEST(CandidatesTest, NamesAreEnoughForASchema) {
  CandidateRequest request;
  request.labels.resize(3);
  for (const LexiconKind& kind : LexiconKinds()) request.kinds.push_back(&kind);
  const std::vector<AttributeCandidate> made = MakeCandidates(request);
  EXPECT_EQ(made.size(), kMostCandidates);
  std::set<std::string> keys;
  for (const AttributeCandidate& each : made) EXPECT_TRUE(keys.insert(LabelKey(each.name)).second);
}

TEST(ChooseTest, TheSurerNameTakesTheWords) {
  const std::vector<AttributeCandidate> chosen = ChooseAttributes(
      {Candidate("flavour", {Value("black", .6, 0), Value("blue", .6, 0), std::nullopt}),
       Candidate("colour", {Value("black", .9, 0), Value("blue", .9, 0), Value("red", .9, 0)}),
       Candidate("size", {Value("9 M", .9, 10), std::nullopt, Value("7 M", .9, 10)})},
      {});
  EXPECT_THAT(Names(chosen), ElementsAre("colour", "size"));
  EXPECT_EQ(chosen[0].coverage(), 3u);
}

TEST(ChooseTest, NeedsSureValuesInSeveralDocuments) {
  EXPECT_THAT(ChooseAttributes({Candidate("once", {Value("a", .9, 0), std::nullopt}),
                                Candidate("unsure", {Value("b", .4, 9), Value("c", .4, 9)})},
                               {}),
              IsEmpty());
  AttributeCandidate given = Candidate("given", {Value("a", .2, 0), std::nullopt});
  given.given = true;
  EXPECT_THAT(Names(ChooseAttributes({given}, {})), ElementsAre("given"));
}

TEST(ChooseTest, ValuesMustLookAsExpected) {
  AttributeCandidate weight =
      Candidate("weight", {Value("10 M US", .9, 0), Value("3 kg", .9, 0), Value("40 g", .9, 0)});
  weight.expected = Expected::kMass;
  const std::vector<AttributeCandidate> chosen = ChooseAttributes({weight}, {});
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen[0].coverage(), 2u);
}

TEST(ChooseTest, PartsOfALabelledTextAreFree) {
  const std::string text = "Order 77 is late";
  AttributeCandidate subject = Candidate("subject", {Value(text, 1, 0), Value(text, 1, 0)});
  for (std::optional<SampleValue>& value : subject.values) value->labelled = true;
  const AttributeCandidate order = Candidate("order", {Value("77", .8, 6), Value("77", .8, 6)});
  const AttributeCandidate title = Candidate("title", {Value(text, .8, 0), Value(text, .8, 0)});
  EXPECT_THAT(Names(ChooseAttributes({subject, order, title}, {})),
              ElementsAre("subject", "order"));
}

}  // namespace

}  // namespace banyan
