#include "propose/labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Pairs(std::string_view document) {
  std::vector<std::string> pairs;
  for (const FoundLabel& label : FindLabels(document)) {
    pairs.push_back(label.name + "=" + label.value);
  }
  return pairs;
}

TEST(LabelsTest, ReadsLinesBulletsAndMarks) {
  EXPECT_THAT(Pairs("Colour: moss green\n - Weight : 3 kg\n**Seats:** 2\nfoldable = yes\n"
                    "Größe： XL\n## Net weight (g): 250"),
              ElementsAre("Colour=moss green", "Weight=3 kg", "Seats=2", "foldable=yes", "Größe=XL",
                          "Net weight (g)=250"));
}

TEST(LabelsTest, ReadsSeveralOfALine) {
  EXPECT_THAT(Pairs("Price: 60 EUR / Seats: 2 / Foldable: yes"),
              ElementsAre("Price=60 EUR", "Seats=2", "Foldable=yes"));
  EXPECT_THAT(Pairs("Customer: Ruth Castellano            Account: 3300 187"),
              ElementsAre("Customer=Ruth Castellano", "Account=3300 187"));
  EXPECT_THAT(Pairs("Address: 12 High St, Leeds; Phone: 0113 22"),
              ElementsAre("Address=12 High St, Leeds", "Phone=0113 22"));
}

TEST(LabelsTest, ReadsColumnsAndLinesBelow) {
  EXPECT_THAT(Pairs("Total due ........ £268.24\nMeter end   20,986 kWh"),
              ElementsAre("Total due=£268.24", "Meter end=20,986 kWh"));
  EXPECT_THAT(Pairs("Ingredients:\n- 2 eggs\n- flour\n\nServes:\n4 people\nthe end"),
              ElementsAre("Ingredients=2 eggs; flour", "Serves=4 people"));
  EXPECT_THAT(Pairs("Total:      60 EUR"), ElementsAre("Total=60 EUR"));
}

TEST(LabelsTest, ReadsTables) {
  EXPECT_THAT(Pairs("| Item | Price |\n|---|---:|\n| Cup | 3 |\n| Pot | 12 |\ntext"),
              ElementsAre("Item=Cup; Pot", "Price=3; 12"));
  EXPECT_THAT(Pairs("Qty   Description   Price\n2     Cup           3.00"),
              ElementsAre("Qty=2", "Description=Cup", "Price=3.00"));
}

TEST(LabelsTest, LeavesProseAlone) {
  EXPECT_THAT(Pairs("Dear Ruth: hello\nSee http://a.b: now\nIt is 10:15 here\n"
                    "We went home, which was far. So: nothing\nStep 2: stir\n"
                    "A label that has far too many words: no"),
              IsEmpty());
}

TEST(LabelsTest, PlacesAreCharactersOfTheValue) {
  const std::vector<FoundLabel> labels = FindLabels("Größe: 42 cm\nFarbe: grün");
  ASSERT_EQ(labels.size(), 2u);
  EXPECT_EQ(labels[0].place, (TextSpan{7, 12}));
  EXPECT_EQ(labels[1].place, (TextSpan{20, 24}));
}

TEST(LabelsTest, KeysIgnoreSpelling) {
  EXPECT_EQ(LabelKey("Invoice No."), LabelKey("invoice number"));
  EXPECT_EQ(LabelKey("Invoice #"), LabelKey("Invoice nr"));
  EXPECT_EQ(LabelKey("COLORS"), LabelKey("colour"));
  EXPECT_EQ(LabelKey("Net weight (g)"), LabelKey("net weights"));
  EXPECT_NE(LabelKey("due date"), LabelKey("date"));
}

}  // namespace
}  // namespace banyan
