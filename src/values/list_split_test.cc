#include "values/list_split.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

using Items = std::vector<std::string>;

struct ListCase {
  std::string_view raw;
  Items items;
};

TEST(SplitList, Items) {
  const ListCase cases[] = {
      {"", {}},
      {"  ", {}},
      {"red", {"red"}},
      {"red, blue and green", {"red", "blue", "green"}},
      {"red, blue, and green", {"red", "blue", "green"}},
      {"rot, blau und grün", {"rot", "blau", "grün"}},
      {"rouge, bleu et vert", {"rouge", "bleu", "vert"}},
      {"red, blue & green", {"red", "blue", "green"}},
      {"red and blue", {"red", "blue"}},
      {"red or blue", {"red", "blue"}},
      {"rot oder blau", {"rot", "blau"}},
      {"red,blue,green", {"red", "blue", "green"}},
      {"red; blue; green", {"red", "blue", "green"}},
      {"red, dark; blue", {"red, dark", "blue"}},
      {"red | blue | green", {"red", "blue", "green"}},
      {"red / blue / green", {"red", "blue", "green"}},
      {"red/blue/green", {"red", "blue", "green"}},
      {"red + blue", {"red", "blue"}},
      {"red\nblue\ngreen", {"red", "blue", "green"}},
      {"- red\n- blue\n- green", {"red", "blue", "green"}},
      {"• red\n• blue", {"red", "blue"}},
      {"• red • blue • green", {"red", "blue", "green"}},
      {"* red\n* blue", {"red", "blue"}},
      {"1. red\n2. blue", {"red", "blue"}},
      {"1) red\r\n2) blue\r\n", {"red", "blue"}},
      {"Smith & Sons, Inc.", {"Smith & Sons, Inc."}},
      {"Smith & Sons, Inc., Miller, Ltd.", {"Smith & Sons, Inc.", "Miller, Ltd."}},
      {"Smith and Sons", {"Smith and Sons"}},
      {"Bed & Breakfast", {"Bed & Breakfast"}},
      {"1,5 kg", {"1,5 kg"}},
      {"1,234", {"1,234"}},
      {"1,234,567", {"1,234,567"}},
      {"1,5 kg, 2,5 kg", {"1,5 kg", "2,5 kg"}},
      {"1, 2, 3", {"1", "2", "3"}},
      {"1,2,3", {"1", "2", "3"}},
      {"May 31, 2024", {"May 31, 2024"}},
      {"May 31, 2024, June 2, 2024", {"May 31, 2024", "June 2, 2024"}},
      {"31.05.2024, 01.06.2024", {"31.05.2024", "01.06.2024"}},
      {"120 km/h", {"120 km/h"}},
      {"1/2 cup", {"1/2 cup"}},
      {"Wi-Fi (2.4, 5 GHz), Bluetooth", {"Wi-Fi (2.4, 5 GHz)", "Bluetooth"}},
      {"a (b, c", {"a (b", "c"}},
      {"salt and pepper, oil", {"salt and pepper", "oil"}},
      {",, red,,", {"red"}},
      {"sandy, android", {"sandy", "android"}},
      {"Alice and Bob and Carol", {"Alice", "Bob", "Carol"}},
      {"and/or", {"and/or"}},
      {"cats  and\u00a0dogs", {"cats", "dogs"}},
      {"a\xff, b", {"a\uFFFD", "b"}},
  };
  for (const ListCase& c : cases) EXPECT_EQ(SplitList(c.raw), c.items) << c.raw;
}

// What was joined by a separator comes apart again.
TEST(SplitList, JoinedItemsComeApart) {
  const Items items = {"red", "dark green", "1,5 kg", "Grün", "60 EUR", "vingt"};
  for (const std::string separator : {", ", "; ", " | ", "\n", "\n- ", " / ", " • "}) {
    std::string text;
    for (const std::string& item : items) text += (text.empty() ? "" : separator) + item;
    EXPECT_EQ(SplitList(text), items) << text;
  }
}

TEST(SplitList, LongTextsAreSplitInLinearTime) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "(a, 1,";
  EXPECT_GT(SplitList(text).size(), 1000u);
  EXPECT_EQ(SplitList(std::string(1000000, '1')).size(), 1u);
  EXPECT_EQ(SplitList(std::string(1000000, '(')).size(), 1u);
}

}  // namespace
}  // namespace banyan
