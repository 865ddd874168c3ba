#include "text/jinja/text.h"

#include <gtest/gtest.h>

namespace banyan::jinja {
namespace {

// "control[user]control".
std::string Show(const Text& text) {
  std::string out;
  size_t begin = 0;
  for (const Run& run : text.runs()) {
    const std::string part = text.bytes().substr(begin, run.end - begin);
    out += run.from_user ? "[" + part + "]" : part;
    begin = run.end;
  }
  EXPECT_EQ(begin, text.size());
  return out;
}

TEST(JinjaText, RunsFollowTheBytes) {
  Text text("ab");
  text.Append("cd", true);
  text.Append("", false);
  text.Append("ef", true);
  text.Append("g", false);
  EXPECT_EQ(Show(text), "ab[cdef]g");
  EXPECT_EQ(Show(text.Slice(1, 3)), "b[c]");
  EXPECT_EQ(Show(text.Slice(2, 6)), "[cdef]");
  EXPECT_EQ(Show(text.Slice(4, 4)), "");
  text.Append(text);
  EXPECT_EQ(Show(text), "ab[cdef]gab[cdef]g");
}

TEST(JinjaText, CharactersAreCodePointsAndBadBytesCountAsOne) {
  EXPECT_EQ(CountChars("aé日🎉"), 4u);
  EXPECT_EQ(CountChars("\xff\xc3"
                       "a\xe6\x97"),
            5u);
  EXPECT_EQ(CharAt("\xff", 0), 0xFFFD);
}

TEST(JinjaText, TrimsUnicodeWhiteSpaceOrGivenCharacters) {
  const std::string text = "\u3000\t a b\u00a0\n";
  const ByteRange both = TrimmedRange(text, nullptr, {});
  EXPECT_EQ(text.substr(both.begin, both.end - both.begin), "a b");
  const ByteRange left = TrimmedRange(text, nullptr, {.right = false});
  EXPECT_EQ(left.end, text.size());
  const std::string chars = "éx";
  const std::string marked = "xéaéx";
  const ByteRange cut = TrimmedRange(marked, &chars, {});
  EXPECT_EQ(marked.substr(cut.begin, cut.end - cut.begin), "a");
  EXPECT_EQ(TrimmedRange("\x80\x80 ", nullptr, {}).end, 2u);
}

}  // namespace
}  // namespace banyan::jinja
