#include "propose/lexicon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "propose/labels.h"

namespace banyan {
namespace {

std::string KindOf(std::vector<std::string> documents) {
  const std::vector<std::vector<std::string>> labels(documents.size());
  return std::string(KindsOf(documents, labels).front()->name);
}

TEST(LexiconTest, NamesOfAKindDiffer) {
  for (const LexiconKind& kind : LexiconKinds()) {
    std::set<std::string> keys;
    for (const LexiconEntry& entry : kind.entries) {
      EXPECT_TRUE(keys.insert(LabelKey(entry.name)).second) << kind.name << ": " << entry.name;
      EXPECT_GT(entry.weight, 0.0);
    }
  }
}

TEST(LexiconTest, KnowsTheKindOfDocuments) {
  EXPECT_EQ(KindOf({"Invoice 12, total due 60 EUR, VAT 10", "Rechnung 7, MwSt 19, Gesamtbetrag 8"}),
            "invoice");
  EXPECT_EQ(KindOf({"Dear Ben, thanks for the cake. Regards, Ann", "Hi Ann, cheers, Ben"}), "mail");
  EXPECT_EQ(KindOf({"Bella flat, 2 bedrooms, rent 900", "Furnished apartment, balcony, deposit"}),
            "home");
  EXPECT_EQ(KindOf({"something else", "that nobody knows"}), "product");
}

TEST(LexiconTest, FindsAliases) {
  const std::vector<const LexiconKind*> kinds = {FindLexiconKind("invoice")};
  EXPECT_EQ(FindEntry(kinds, LabelKey("Rechnungs-Nr."))->name, "invoice number");
  EXPECT_EQ(FindEntry(kinds, LabelKey("Fällig am"))->name, "due date");
  EXPECT_EQ(FindEntry(kinds, LabelKey("Amount due"))->name, "total");
  EXPECT_EQ(FindEntry(kinds, "hair type"), nullptr);
}

TEST(LexiconTest, ValuesLookAsExpected) {
  EXPECT_TRUE(LooksLike(Expected::kMass, "12-Ounce"));
  EXPECT_FALSE(LooksLike(Expected::kMass, "8 fl oz"));
  EXPECT_TRUE(LooksLike(Expected::kVolume, "8 fl oz"));
  EXPECT_FALSE(LooksLike(Expected::kMass, "Pack of 6"));
  EXPECT_TRUE(LooksLike(Expected::kCount, "Pack of 6"));
  EXPECT_FALSE(LooksLike(Expected::kCount, "16 Fl Oz"));
  EXPECT_TRUE(LooksLike(Expected::kMoney, "$60"));
  EXPECT_FALSE(LooksLike(Expected::kMoney, "cheap"));
  EXPECT_FALSE(LooksLike(Expected::kDate, "soon"));
  EXPECT_TRUE(LooksLike(Expected::kTime, "12 months"));
}

}  // namespace
}  // namespace banyan
