#include "program/message_text.h"

#include <gtest/gtest.h>

#include <random>

namespace banyan {
namespace {

TEST(Plural, OneIsOne) {
  EXPECT_EQ(Plural(0, "row"), "0 rows");
  EXPECT_EQ(Plural(1, "row"), "1 row");
  EXPECT_EQ(Plural(1234567, "error"), "1 234 567 errors");
}

TEST(Visible, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(Visible("plain\ttext\n"), "plain\ttext\n");
  EXPECT_EQ(Visible("é 漢 😀"), "é 漢 😀");
  EXPECT_EQ(Visible("\x1b[31mred\r"), "\\u001b[31mred\\u000d");
  EXPECT_EQ(Visible("\x7f\xC2\x9B"
                    "0m\xC2\xA0"),
            "\\u007f\\u009b0m\xC2\xA0");
  EXPECT_EQ(Visible("\x9b"
                    "a\xff\xC0\x9b\xE0\x80\x9b"),
            "\\x9ba\\xff\\xc0\\x9b\\xe0\\x80\\x9b");
  EXPECT_EQ(Visible(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(Visible("\xE6\xBC"), "\\xe6\\xbc");
}

TEST(Visible, RandomBytesHaveNoControlCharacterLeft) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes(random() % 20, ' ');
    for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? 0xC2 : random());
    const std::string shown = Visible(bytes);
    for (size_t i = 0; i < shown.size(); ++i) {
      const auto byte = static_cast<unsigned char>(shown[i]);
      EXPECT_TRUE(byte >= 0x20 || byte == '\n' || byte == '\t');
      EXPECT_NE(byte, 0x7F);
      EXPECT_TRUE(byte != 0xC2 || static_cast<unsigned char>(shown.at(i + 1)) >= 0xA0);
    }
    EXPECT_EQ(Visible(shown), shown);
  }
}

}  // namespace
}  // namespace banyan
