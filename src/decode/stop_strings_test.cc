// Stop strings are found wherever tokens and characters end.
#include "decode/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "support/temp_directory.h"
#include "support/tiny_model.h"

namespace banyan {
namespace {

// Ids below 256 are bytes, 256 is "ab", 257 "abc".
std::shared_ptr<const Tokenizer> ByteTokenizer() {
  const testing_support::TempDirectory directory;
  testing_support::GgufWriter writer;
  testing_support::AddByteVocabulary({.vocab = 258}, {"ab", "abc"}, writer);
  writer.Write(directory.path() / "vocab.gguf");
  return Tokenizer::Load(directory.path() / "vocab.gguf");
}

class StopStringsTest : public ::testing::Test {
 protected:
  // Feeds until a stop; returns the tokens taken and the text.
  std::pair<size_t, std::string> Feed(const std::vector<TokenId>& tokens,
                                      const std::vector<std::string>& stops) {
    StopStrings watch(tokenizer_, stops);
    size_t taken = 0;
    for (const TokenId token : tokens) {
      ++taken;
      if (watch.Push(token)) break;
    }
    return {taken, watch.Finish()};
  }
  std::vector<TokenId> Bytes(const std::string& text) {
    std::vector<TokenId> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = ByteTokenizer();
};

TEST_F(StopStringsTest, NoStop) {
  EXPECT_EQ(Feed(Bytes("hello"), {"xyz"}), (std::pair<size_t, std::string>{5, "hello"}));
  EXPECT_EQ(Feed({}, {"xyz"}), (std::pair<size_t, std::string>{0, ""}));
}

TEST_F(StopStringsTest, AcrossTokens) {
  EXPECT_EQ(Feed(Bytes("one two three"), {"two"}), (std::pair<size_t, std::string>{7, "one "}));
  EXPECT_EQ(Feed(Bytes("aab"), {"ab"}), (std::pair<size_t, std::string>{3, "a"}));
}

TEST_F(StopStringsTest, InsideAToken) {
  EXPECT_EQ(Feed({'x', 257, 'y'}, {"b"}), (std::pair<size_t, std::string>{2, "xa"}));
  EXPECT_EQ(Feed({'x', 256, 'y'}, {"by"}), (std::pair<size_t, std::string>{3, "xa"}));
}

TEST_F(StopStringsTest, TheEarliestInTheTextCounts) {
  // One token completes both; "c" is listed first but stands later.
  EXPECT_EQ(Feed({'x', 257}, {"c", "a"}), (std::pair<size_t, std::string>{2, "x"}));
}

TEST_F(StopStringsTest, CharactersOfSeveralBytes) {
  const std::string text = "caf\u00e9 \u2602!";
  EXPECT_EQ(Feed(Bytes(text), {"\u2602"}), (std::pair<size_t, std::string>{9, "caf\u00e9 "}));
  EXPECT_EQ(Feed(Bytes(text), {"\u00e9 "}), (std::pair<size_t, std::string>{6, "caf"}));
}

TEST_F(StopStringsTest, AnUnfinishedCharacterEndsAsReplacement) {
  EXPECT_EQ(Feed({'a', 0xC3}, {"zz"}).second, "a\uFFFD");
}

TEST_F(StopStringsTest, RandomTextsAgainstSearchingTheWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<TokenId> tokens;
    std::string text;
    std::vector<std::string> prefix_texts;
    for (unsigned i = 0; i < 1 + random() % 12; ++i) {
      const unsigned pick = random() % 5;
      tokens.push_back(pick < 3 ? static_cast<TokenId>('a' + pick)
                                : 253 + static_cast<TokenId>(pick));
      text += pick < 3 ? std::string(1, static_cast<char>('a' + pick)) : pick == 3 ? "ab" : "abc";
      prefix_texts.push_back(text);
    }
    std::vector<std::string> stops;
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      std::string stop;
      for (unsigned k = 0; k < 1 + random() % 4; ++k) stop += static_cast<char>('a' + random() % 3);
      stops.push_back(stop);
    }
    size_t taken = tokens.size();
    std::string expected = text;
    for (size_t i = 0; i < tokens.size(); ++i) {
      size_t found = std::string::npos;
      for (const std::string& stop : stops) found = std::min(found, prefix_texts[i].find(stop));
      if (found == std::string::npos) continue;
      taken = i + 1;
      expected = text.substr(0, found);
      break;
    }
    ASSERT_EQ(Feed(tokens, stops), (std::pair<size_t, std::string>{taken, expected})) << text;
  }
}

}  // namespace
}  // namespace banyan
