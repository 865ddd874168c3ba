// Where a unit of an answer ends: against a second reading of the rule, of the whole text.
#include "decode/answer_words.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "support/temp_directory.h"
#include "support/tiny_model.h"

namespace banyan {
namespace {

// Whether `next` goes on with the unit at the end of `text`, in ASCII; from the whole text.
bool GoesOnByDefinition(const std::string& text, const std::string& next) {
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto letter = [&](char c) { return capital(c) || (c >= 'a' && c <= 'z'); };
  const std::string all = text + next;
  size_t first = text.size();  // of what `next` says
  while (first < all.size() && space(all[first])) ++first;
  if (first == all.size()) return false;
  size_t end = first;  // of the word before it
  while (end > 0 && space(all[end - 1])) --end;
  if (end == 0) return false;
  const std::string between = all.substr(end, first - end);
  if (between.empty()) return true;
  if (between.find_first_of("\n\r") != std::string::npos) return false;
  // The words of the unit, from the last one back.
  bool follows = false;
  size_t at = 0;
  bool unit_digits = false, name = false, number = false, digits = false;
  char last = 0;
  const auto joins = [&](char c) {
    if (last == 0 || std::string(";:!?").find(last) != std::string::npos) return false;
    if (last == ',') return digit(c) && digits;
    if (capital(c)) return name || number;
    if (digit(c)) return name || number || unit_digits;
    return number;
  };
  while (at < end) {
    size_t word_end = at;
    while (word_end < end && !space(all[word_end])) ++word_end;
    const std::string word = all.substr(at, word_end - at);
    if (!joins(word[0])) unit_digits = false;
    name = number = digits = false;
    bool seen = false;
    for (const char c : word) {
      if (!seen && (letter(c) || digit(c))) {
        seen = true;
        name = capital(c);
        number = digit(c);
      }
      digits = digits || digit(c);
    }
    unit_digits = unit_digits || digits;
    last = word.back();
    at = word_end;
    while (at < end && space(all[at])) {
      if (all[at] == '\n' || all[at] == '\r') last = 0, unit_digits = false;
      ++at;
    }
    follows = joins(all[first]);
  }
  return follows;
}

// Ids below 256 are bytes.
std::shared_ptr<const Tokenizer> Bytes() {
  const testing_support::TempDirectory directory;
  testing_support::GgufWriter writer;
  testing_support::AddByteVocabulary({.vocab = 258}, {"ab", "abc"}, writer);
  writer.Write(directory.path() / "vocab.gguf");
  return Tokenizer::Load(directory.path() / "vocab.gguf");
}

std::string Units(const std::string& text) {
  WordTokens tokens(Bytes());
  AnswerWords words;
  std::string shown;
  for (const char c : text) {
    const TokenId token = static_cast<TokenId>(static_cast<unsigned char>(c));
    const bool blank = c == ' ' || c == '\n';
    if (!blank && !tokens.GoesOn(words.end(), token)) shown += '|';
    words.Push(tokens.BytesOf(token));
    shown += c;
  }
  return shown;
}

TEST(AnswerWords, NumbersDatesAndNamesAreOne) {
  EXPECT_EQ(Units("2 April 2018"), "|2 April 2018");
  EXPECT_EQ(Units("the 2 april 2018, and"), "|the |2 april 2018, |and");
  EXPECT_EQ(Units("April 2, 2018, Anna Berg, Rome"), "|April 2, 2018, |Anna Berg, |Rome");
  EXPECT_EQ(Units("at 7:45 AM: LMB-K 402"), "|at |7:45 AM: |LMB-K 402");
  EXPECT_EQ(Units("three crates of figs"), "|three |crates |of |figs");
  EXPECT_EQ(Units("Gate B\nGate C"), "|Gate B\n|Gate C");
  EXPECT_EQ(Units("\xC3\x9C\x62\x65r \xC3\x96l 7; 8 %"), "|\xC3\x9C\x62\x65r \xC3\x96l 7; |8 %");
}

TEST(AnswerWords, AreThoseOfTheWholeText) {
  const std::vector<std::string> pieces = {"A", "b", "7", "3", ",",  ".", ";", ":",
                                           "-", " ", " ", " ", "\n", "B", "c", "%"};
  WordTokens tokens(Bytes());
  int going_on = 0, others = 0;
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    AnswerWords words;
    std::string text;
    for (int i = 0; i < 16; ++i) {
      const std::string& piece = pieces[random() % pieces.size()];
      const TokenId token = static_cast<TokenId>(static_cast<unsigned char>(piece[0]));
      const bool found = tokens.GoesOn(words.end(), token);
      ASSERT_EQ(found, GoesOnByDefinition(text, piece)) << '"' << text << "\" + \"" << piece << '"';
      const bool bit = (tokens.Others(words.end())[static_cast<size_t>(token) / 32] >>
                            (static_cast<size_t>(token) % 32) &
                        1u) != 0;
      ASSERT_EQ(bit, !found);
      ++(found ? going_on : others);
      text += piece;
      words.Push(tokens.BytesOf(token));
    }
  }
  EXPECT_GT(going_on, 1000);
  EXPECT_GT(others, 1000);
}

}  // namespace
}  // namespace banyan
