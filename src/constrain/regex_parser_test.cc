// Patterns: what they mean, checked against a naive matcher, and what is refused and where.
#include "constrain/regex_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "constrain/automaton.h"
#include "constrain/matcher_fixture.h"
#include "support/error_message.h"

namespace banyan {

namespace {

using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::NaivelyMatches;
using testing_support::RandomPatterns;

bool Matches(std::string_view pattern, std::string_view text) {
  const Dfa dfa{Nfa(*WholeMatch(ParsePattern(pattern)))};
  return dfa.accepting(dfa.Next(dfa.start(), text));
}

TEST(Pattern, MatchesWholeTexts) {
  EXPECT_TRUE(Matches("ab?c", "abc"));
  EXPECT_TRUE(Matches("ab?c", "ac"));
  EXPECT_FALSE(Matches("ab?c", "abbc"));
  EXPECT_FALSE(Matches("ab", "xab"));
  EXPECT_FALSE(Matches("ab", "abx"));
  EXPECT_TRUE(Matches("", ""));
  EXPECT_FALSE(Matches("", "a"));
  EXPECT_TRUE(Matches("a|", ""));
  EXPECT_TRUE(Matches("^a|b$", "b"));
  EXPECT_TRUE(Matches("^(?:a|b)+$", "abab"));
  EXPECT_TRUE(Matches("(?<year>\\d{4})", "2024"));
  EXPECT_TRUE(Matches("a+?b", "aab"));
}

TEST(Pattern, ReadsEscapesAndClasses) {
  EXPECT_TRUE(Matches(R"(\x41\u00e9\u{1F600}\x{42})", "Aé😀B"));
  EXPECT_TRUE(Matches(R"(\ud83d\ude00)", "😀"));
  EXPECT_TRUE(Matches(R"(\n\r\t\f\v\0)", std::string_view("\n\r\t\f\v\0", 6)));
  EXPECT_TRUE(Matches(R"(\.\*\\\"\{\}\[\])", ".*\\\"{}[]"));
  EXPECT_TRUE(Matches(R"([\]\-a]{3})", "]-a"));
  EXPECT_TRUE(Matches("[a-]+", "-a"));
  EXPECT_TRUE(Matches(R"(\d\D\w\W\s\S)", "1x_- x"));
  EXPECT_FALSE(Matches(R"(\w)", "é"));
  EXPECT_TRUE(Matches(R"(\W)", "é"));
  EXPECT_FALSE(Matches(".", "\n"));
  EXPECT_TRUE(Matches("[^a]", "\n"));
  EXPECT_TRUE(Matches(".", "\U0010FFFF"));
}

TEST(Pattern, ReadsBytesOfNothingButCharacters) {
  EXPECT_FALSE(Matches("[^a]", "\x80"));
  EXPECT_FALSE(Matches("[^a]", "\xC0\x80"));      // overlong
  EXPECT_FALSE(Matches("[^a]", "\xED\xA0\x80"));  // surrogate
  EXPECT_FALSE(Matches("[^a]", "\xF4\x90\x80\x80"));
  EXPECT_TRUE(Matches("[^a]", "\xED\x9F\xBF"));
  EXPECT_TRUE(Matches("[^a]", "\xEE\x80\x80"));
}

TEST(Pattern, RefusesWithThePosition) {
  const auto refused = [](ErrorKind kind, const char* pattern) {
    return ErrorMessage(kind, [&] { ParsePattern(pattern); });
  };
  EXPECT_THAT(refused(ErrorKind::kInput, "ab(c"), HasSubstr("character 3: '('"));
  EXPECT_THAT(refused(ErrorKind::kInput, "äb)"), HasSubstr("character 3"));
  EXPECT_THAT(refused(ErrorKind::kInput, "*a"), HasSubstr("character 1: nothing to repeat"));
  EXPECT_THAT(refused(ErrorKind::kInput, "a**"), HasSubstr("character 3"));
  EXPECT_THAT(refused(ErrorKind::kInput, "a{2,1}"), HasSubstr("character 2"));
  EXPECT_THAT(refused(ErrorKind::kInput, "a{x}"), HasSubstr("\\{"));
  EXPECT_THAT(refused(ErrorKind::kInput, "[z-a]"), HasSubstr("character 2"));
  EXPECT_THAT(refused(ErrorKind::kInput, "[ab"), HasSubstr("'[' without ']'"));
  EXPECT_THAT(refused(ErrorKind::kInput, "[]"), HasSubstr("empty class"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"([^\s\S])"), HasSubstr("no character"));
  EXPECT_THAT(refused(ErrorKind::kInput, "a\\"), HasSubstr("character 2"));
  EXPECT_THAT(refused(ErrorKind::kInput, R"(\ud800)"), HasSubstr("no such character"));
  EXPECT_THAT(refused(ErrorKind::kInput, "\xFF"), HasSubstr("UTF-8"));
  EXPECT_THAT(refused(ErrorKind::kUnsupported, "(?=a)"), HasSubstr("lookaround"));
  EXPECT_THAT(refused(ErrorKind::kUnsupported, "(?<!a)b"), HasSubstr("lookaround"));
  EXPECT_THAT(refused(ErrorKind::kUnsupported, R"((a)\1)"), HasSubstr("character 4"));
  EXPECT_THAT(refused(ErrorKind::kUnsupported, R"(\bx)"), HasSubstr("\\b"));
  EXPECT_THAT(refused(ErrorKind::kUnsupported, "a^b"), HasSubstr("ends"));
  EXPECT_THAT(refused(ErrorKind::kUnsupported, "a++"), HasSubstr("possessive"));
  EXPECT_THAT(refused(ErrorKind::kLimit, "a{10001}"), HasSubstr("10000"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [] { ParsePattern(std::string(300, '(')); }),
              HasSubstr("200"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, [] { ParsePattern(std::string(70000, 'a')); }),
              HasSubstr("65536"));
}

TEST(Pattern, RefusesWhatWouldBlowUp) {
  for (const char* pattern : {"(a|b)*a(a|b){24}", "((a{0,100}){0,100}){0,100}",
                              "(.{0,500}a.{0,500}){100}", "(((a?){50}){50}){50}"}) {
    const auto compile = [&] { const Dfa dfa{Nfa(*WholeMatch(ParsePattern(pattern)))}; };
    EXPECT_THAT(ErrorMessage(ErrorKind::kLimit, compile), HasSubstr("more than")) << pattern;
  }
  EXPECT_TRUE(Matches("(((){1000}){1000}){1000}", ""));  // costs nothing
}

TEST(Pattern, AgreesWithANaiveMatcher) {
  RandomPatterns random(7);
  int matched = 0, tried = 0;
  for (int round = 0; round < 1500; ++round) {
    const std::string pattern = random.SmallPattern();
    const ExpressionPtr expression = WholeMatch(ParsePattern(pattern));
    const Dfa dfa{Nfa(*expression)};
    for (int i = 0; i < 40; ++i, ++tried) {
      const std::string text = random.Text();
      const bool expected = NaivelyMatches(*expression, text);
      ASSERT_EQ(dfa.accepting(dfa.Next(dfa.start(), text)), expected) << pattern << " on " << text;
      matched += expected ? 1 : 0;
    }
  }
  EXPECT_GT(matched, tried / 20);
}

TEST(Pattern, EveryStateCanBeCompleted) {
  RandomPatterns random(8);
  for (int round = 0; round < 300; ++round) {
    const std::string pattern = random.SmallPattern();
    const Dfa dfa{Nfa(*WholeMatch(ParsePattern(pattern)))};
    // Backwards from the accepting states.
    std::vector<bool> completes(dfa.states(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (Dfa::State state = 1; state < dfa.states(); ++state) {
        if (completes[state]) continue;
        bool can = dfa.accepting(state);
        for (int byte = 0; byte < 256 && !can; ++byte) {
          can = completes[dfa.Next(state, static_cast<std::uint8_t>(byte))];
        }
        if (can) changed = completes[state] = true;
      }
    }
    for (Dfa::State state = 1; state < dfa.states(); ++state) {
      ASSERT_TRUE(completes[state]) << pattern;
    }
    EXPECT_FALSE(completes[Dfa::kDead]);
  }
}

}  // namespace

}  // namespace banyan
