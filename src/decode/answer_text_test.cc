// Stop strings are found wherever tokens and characters end, and what is shown is never taken back.
#include "decode/answer_text.h"

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

class AnswerTextTest : public ::testing::Test {
 protected:
  // Feeds until a stop; returns the tokens taken and the text.
  std::pair<size_t, std::string> Feed(const std::vector<TokenId>& tokens,
                                      const std::vector<std::string>& stops) {
    AnswerText watch(tokenizer_, stops);
    size_t taken = 0;
    for (const TokenId token : tokens) {
      ++taken;
      if (watch.Push(token)) break;
    }
    return {taken, watch.Finish()};
  }
  // What is shown after every token and, last, at the end.
  std::vector<std::string> Shown(const std::vector<TokenId>& tokens,
                                 const std::vector<std::string>& stops) {
    AnswerText text(tokenizer_, stops);
    std::vector<std::string> shown;
    for (const TokenId token : tokens) {
      const bool stopped = text.Push(token);
      shown.push_back(text.TakeShowable());
      if (stopped) break;
    }
    text.Finish();
    shown.push_back(text.TakeShowable());
    return shown;
  }
  std::vector<TokenId> Bytes(const std::string& text) {
    std::vector<TokenId> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = ByteTokenizer();
};

TEST_F(AnswerTextTest, NoStop) {
  EXPECT_EQ(Feed(Bytes("hello"), {"xyz"}), (std::pair<size_t, std::string>{5, "hello"}));
  EXPECT_EQ(Feed({}, {"xyz"}), (std::pair<size_t, std::string>{0, ""}));
}

TEST_F(AnswerTextTest, AcrossTokens) {
  EXPECT_EQ(Feed(Bytes("one two three"), {"two"}), (std::pair<size_t, std::string>{7, "one "}));
  EXPECT_EQ(Feed(Bytes("aab"), {"ab"}), (std::pair<size_t, std::string>{3, "a"}));
}

TEST_F(AnswerTextTest, InsideAToken) {
  EXPECT_EQ(Feed({'x', 257, 'y'}, {"b"}), (std::pair<size_t, std::string>{2, "xa"}));
  EXPECT_EQ(Feed({'x', 256, 'y'}, {"by"}), (std::pair<size_t, std::string>{3, "xa"}));
}

TEST_F(AnswerTextTest, TheEarliestInTheTextCounts) {
  // One token completes both; "c" is listed first but stands later.
  EXPECT_EQ(Feed({'x', 257}, {"c", "a"}), (std::pair<size_t, std::string>{2, "x"}));
}

TEST_F(AnswerTextTest, CharactersOfSeveralBytes) {
  const std::string text = "caf\u00e9 \u2602!";
  EXPECT_EQ(Feed(Bytes(text), {"\u2602"}), (std::pair<size_t, std::string>{9, "caf\u00e9 "}));
  EXPECT_EQ(Feed(Bytes(text), {"\u00e9 "}), (std::pair<size_t, std::string>{6, "caf"}));
}

TEST_F(AnswerTextTest, AnUnfinishedCharacterEndsAsReplacement) {
  EXPECT_EQ(Feed({'a', 0xC3}, {"zz"}).second, "a\uFFFD");
}

using Texts = std::vector<std::string>;

TEST_F(AnswerTextTest, WithoutStopsEveryCharacterIsShownAtOnce) {
  EXPECT_EQ(Shown({'a', 0xC3, 0xA9, 256}, {}), (Texts{"a", "", "\u00e9", "ab", ""}));
  EXPECT_EQ(Shown({'a', 0xC3}, {}), (Texts{"a", "", "\uFFFD"}));
}

TEST_F(AnswerTextTest, WhatMayBecomeAStopIsHeldBack) {
  EXPECT_EQ(Shown(Bytes("one two"), {"two"}), (Texts{"o", "n", "e", " ", "", "", "", ""}));
  EXPECT_EQ(Shown(Bytes("a tw!"), {"two"}), (Texts{"a", " ", "", "", "tw!", ""}));
  EXPECT_EQ(Shown(Bytes("xtw"), {"two"}), (Texts{"x", "", "", "tw"}));
  EXPECT_EQ(Shown({'x', 257, 'd'}, {"bcd"}), (Texts{"x", "a", "", ""}));
}

TEST_F(AnswerTextTest, RandomTextsAgainstSearchingTheWhole) {
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
    // What is shown on the way is always a beginning of what the answer becomes.
    std::string shown;
    for (const std::string& piece : Shown(tokens, stops)) {
      shown += piece;
      ASSERT_TRUE(expected.starts_with(shown)) << text;
    }
    ASSERT_EQ(shown, expected);
  }
}

}  // namespace
}  // namespace banyan
