// Values of several documents: against the definition said plainly, in any order of documents.
#include "tasks/extract/extract_fuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using OrderedJson = nlohmann::ordered_json;

class FuseTest : public ::testing::Test {
 protected:
  Leaf LeafOf(const std::string& name, ValueKind kind = ValueKind::kText) {
    ExtractAttribute& attribute =
        attributes_.emplace_back(std::make_unique<ExtractAttribute>()).operator*();
    attribute.name = name;
    attribute.kind = kind;
    if (kind == ValueKind::kList || kind == ValueKind::kObjects) attribute.parts.resize(1);
    if (kind == ValueKind::kEnum) attribute.allowed = {"a", "b", "c"};
    return {&attribute, {name}, name};
  }

  static ExtractedValue Value(const Leaf& leaf, OrderedJson value, double confidence,
                              bool stands = true) {
    ExtractedValue result;
    result.name = leaf.name;
    result.attribute = leaf.attribute;
    result.raw = value;
    result.value = std::move(value);
    result.confidence = confidence;
    result.tokens = 1;
    if (result.value.is_null()) return result;
    const size_t places = result.value.is_array() ? result.value.size() : 1;
    for (size_t i = 0; i < places; ++i) {
      result.places.push_back(stands ? std::optional(TextSpan{1, 4}) : std::nullopt);
    }
    return result;
  }

  std::vector<std::unique_ptr<ExtractAttribute>> attributes_;
};

TEST_F(FuseTest, OneDocumentKeepsItsConfidence) {
  const Leaf leaf = LeafOf("brand");
  const std::vector<DocumentValues> documents = {{"page", {Value(leaf, "Sony", 0.37)}},
                                                 {"manual", {Value(leaf, nullptr, 0.99)}}};
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.value, "Sony");
  EXPECT_NEAR(fused.confidence, 0.37, 1e-12);
  EXPECT_THAT(fused.sources, ElementsAre("page"));
  EXPECT_THAT(fused.agreeing, IsEmpty());
  EXPECT_THAT(fused.conflicts, IsEmpty());
  EXPECT_EQ(fused.tokens, 2);
}

TEST_F(FuseTest, AgreementRaisesAndConflictLowers) {
  const Leaf leaf = LeafOf("capacity", ValueKind::kNumber);
  std::vector<DocumentValues> documents = {{"page", {Value(leaf, 1.7, 0.6)}},
                                           {"manual", {Value(leaf, 1.7, 0.5)}},
                                           {"review", {Value(leaf, 2, 0.8)}}};
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.value, 1.7);
  // 10*1.5 * 10*1 against 10*4 and nine values that nobody gave.
  EXPECT_NEAR(fused.confidence, 150.0 / (150.0 + 40.0 + 9.0), 1e-12);
  EXPECT_THAT(fused.sources, ElementsAre("page"));
  EXPECT_THAT(fused.agreeing, ElementsAre("manual"));
  ASSERT_EQ(fused.conflicts.size(), 1u);
  EXPECT_EQ(fused.conflicts[0].dump(),
            R"({"document":"review","value":2,"confidence":0.8,"span":[1,4]})");
}

TEST_F(FuseTest, TextsAgreeWhateverTheirCaseAndPunctuation) {
  const Leaf leaf = LeafOf("maker");
  const std::vector<DocumentValues> documents = {{1, {Value(leaf, "SONY.", 0.4, false)}},
                                                 {2, {Value(leaf, "Sony", 0.3)}},
                                                 {3, {Value(leaf, "...", 0.35)}}};
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.value, "Sony");  // of those that say it, the one where it stands
  EXPECT_THAT(fused.agreeing, ElementsAre(1));
  ASSERT_EQ(fused.conflicts.size(), 1u);
  EXPECT_EQ(fused.conflicts[0]["value"], "...");
}

TEST_F(FuseTest, BooleansHaveOneOtherValue) {
  const Leaf leaf = LeafOf("new", ValueKind::kBoolean);
  const std::vector<DocumentValues> documents = {{1, {Value(leaf, true, 0.6, false)}},
                                                 {2, {Value(leaf, false, 0.9, false)}}};
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.value, false);
  EXPECT_NEAR(fused.confidence, 9.0 / 10.5, 1e-12);
}

TEST_F(FuseTest, NobodyKnows) {
  const Leaf leaf = LeafOf("date", ValueKind::kDate);
  std::vector<DocumentValues> documents = {{1, {Value(leaf, nullptr, 0.9)}},
                                           {2, {Value(leaf, nullptr, 0.7)}},
                                           {3, {Value(leaf, nullptr, 0.8)}}};
  EXPECT_EQ(FuseDocuments({&leaf, 1}, documents).front().confidence, 0.7);
  documents[2].values[0].reason = "'soon' is no date";
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.reason, "'soon' is no date");
  EXPECT_TRUE(fused.value.is_null());
  EXPECT_THAT(fused.sources, IsEmpty());
}

TEST_F(FuseTest, ExtremesAndNothingFinite) {
  const Leaf leaf = LeafOf("brand");
  const std::vector<DocumentValues> documents = {
      {1, {Value(leaf, "A", 1.0)}}, {2, {Value(leaf, "B", 0.0)}}, {3, {Value(leaf, "C", NAN)}}};
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.value, "A");
  EXPECT_GT(fused.confidence, 0.99);
  EXPECT_LE(fused.confidence, 1.0);
}

TEST_F(FuseTest, ListsAreUnitedTheSurestFirst) {
  const Leaf leaf = LeafOf("ports", ValueKind::kList);
  attributes_[0]->max_items = 3;
  const std::vector<DocumentValues> documents = {
      {"page", {Value(leaf, {"HDMI", "usb-c"}, 0.5)}},
      {"manual", {Value(leaf, {"USB-C", "AUX", "LAN"}, 0.8)}},
      {"review", {Value(leaf, nullptr, 0.9)}}};
  const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(fused.value.dump(), R"(["USB-C","AUX","LAN"])");
  EXPECT_THAT(fused.sources, ElementsAre("manual", "manual", "manual"));
  EXPECT_EQ(fused.confidence, 0.8);
  attributes_[0]->max_items = 16;
  const ExtractedValue all = FuseDocuments({&leaf, 1}, documents).front();
  EXPECT_EQ(all.value.dump(), R"(["USB-C","AUX","LAN","HDMI"])");
  EXPECT_THAT(all.sources, ElementsAre("manual", "manual", "manual", "page"));
  EXPECT_EQ(all.confidence, 0.5);
  EXPECT_EQ(all.places.size(), 4u);
}

TEST_F(FuseTest, AListOfObjectsIsThatOfOneDocument) {
  const Leaf leaf = LeafOf("lines", ValueKind::kObjects);
  const auto item = [&](const char* name, const char* value, double confidence) {
    Leaf named = leaf;
    named.name = name;
    return Value(named, value, confidence);
  };
  const std::vector<DocumentValues> documents = {
      {1, {item("lines[0].what", "bolt", 0.4), item("lines[1].what", "nut", 0.9)}},
      {2, {item("lines[0].what", "Bolt", 0.6)}},
      {3, {Value(leaf, nullptr, 0.9)}}};
  const std::vector<ExtractedValue> fused = FuseDocuments({&leaf, 1}, documents);
  ASSERT_EQ(fused.size(), 1u);
  EXPECT_EQ(fused[0].value, "Bolt");
  EXPECT_THAT(fused[0].sources, ElementsAre(2));
}

// The definition with products and a sum over everything, for a slot of random documents.
double PlainProbability(const std::vector<DocumentValues>& documents, const OrderedJson& value) {
  std::map<std::string, double> weight;
  for (const DocumentValues& document : documents) {
    const ExtractedValue& given = document.values[0];
    if (given.value.is_null()) continue;
    weight.emplace(given.value.dump(), 1.0);
  }
  const double others = std::max<double>(10.0, static_cast<double>(weight.size()));
  for (const DocumentValues& document : documents) {
    const ExtractedValue& given = document.values[0];
    if (given.value.is_null()) continue;
    weight[given.value.dump()] *= others * given.confidence / (1.0 - given.confidence);
  }
  double sum = others + 1.0 - static_cast<double>(weight.size());
  for (const auto& [name, w] : weight) sum += w;
  return weight.at(value.dump()) / sum;
}

TEST_F(FuseTest, IsTheDefinitionInAnyOrder) {
  const Leaf leaf = LeafOf("size", ValueKind::kInteger);
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<DocumentValues> documents;
    const int count = 1 + below(round % 10 == 0 ? 64 : 6);
    for (int i = 0; i < count; ++i) {
      const OrderedJson value = below(4) == 0 ? OrderedJson(nullptr) : OrderedJson(below(5));
      documents.push_back({i, {Value(leaf, value, 0.01 + 0.0001 * below(9800))}});
    }
    const ExtractedValue fused = FuseDocuments({&leaf, 1}, documents).front();
    if (fused.value.is_null()) continue;
    EXPECT_NEAR(fused.confidence, PlainProbability(documents, fused.value), 1e-9);
    for (const DocumentValues& document : documents) {
      if (document.values[0].value.is_null()) continue;
      EXPECT_LE(PlainProbability(documents, document.values[0].value), fused.confidence + 1e-12);
    }
    std::ranges::shuffle(documents, random);
    const ExtractedValue again = FuseDocuments({&leaf, 1}, documents).front();
    EXPECT_EQ(again.value, fused.value);
    EXPECT_EQ(again.confidence, fused.confidence);  // to the last bit
    EXPECT_EQ(again.sources, fused.sources);
    EXPECT_EQ(again.conflicts.size(), fused.conflicts.size());
  }
}

TEST_F(FuseTest, WhatWasWrittenTogetherIsFromWhereItStands) {
  const Leaf leaf = LeafOf("brand");
  ExtractedValue here = Value(leaf, "Sony", 0.8), there = Value(leaf, "Sony", 0.8, false);
  here.experts = there.experts = {1, 1, 0};
  // Two documents have it: the one that most tokens are owed to.
  EXPECT_THAT(FindSources(std::vector<DocumentValues>{{"a", {here}}, {"b", {here}}})[0].sources,
              ElementsAre("b"));
  // Only the other has it.
  EXPECT_THAT(FindSources(std::vector<DocumentValues>{{"a", {here}}, {"b", {there}}})[0].sources,
              ElementsAre("a"));
  const Leaf list = LeafOf("ports", ValueKind::kList);
  ExtractedValue first = Value(list, {"x", "y"}, 0.5), second = first;
  first.places[1] = second.places[0] = std::nullopt;
  const ExtractedValue both =
      FindSources(std::vector<DocumentValues>{{"a", {first}}, {"b", {second}}})[0];
  EXPECT_THAT(both.sources, ElementsAre("a", "b"));
  EXPECT_TRUE(both.grounded());
}

}  // namespace
}  // namespace banyan
