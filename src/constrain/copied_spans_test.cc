// Answers that are copied, against a search for them in the text.
#include <gtest/gtest.h>
#include <random>

#include "constrain/constraint.h"
#include "constrain/matcher_fixture.h"
#include "constrain/regex_parser.h"
#include "constrain/token_masks.h"
#include "support/error_message.h"

namespace banyan {

namespace {

const std::vector<std::string> kNull = {"null"};

bool Matches(const Dfa& dfa, std::string_view text) {
  return dfa.accepting(dfa.Next(dfa.start(), text));
}

TEST(CopyText, SpansOfWholeWordsAreCopied) {
  const Dfa dfa = CopyAutomaton("Anna Walker (né\xC3\xA9 Reed)\n  steers the ferry.", kNull, {});
  for (const char* span :
       {"Anna", "Anna Walker", "Walker", "Reed) steers", "ferry", "ferry.", "the ferry", "null",
        "Anna Walker (né\xC3\xA9 Reed) steers the ferry."}) {
    EXPECT_TRUE(Matches(dfa, span)) << span;
  }
  for (const char* other : {"", "(n", "Ann", "nna", "Anna ", " Anna", "Anna Reed", "nul",
                            "nullAnna", "Walker steers", "anna", "ferry. null", "ferry null"}) {
    EXPECT_FALSE(Matches(dfa, other)) << other;
  }
}

TEST(CopyText, NumbersAreNotCut) {
  const Dfa dfa = CopyAutomaton("It costs 1,250.50 at 7:45 on 03/12/2024. Or 7.", kNull, {});
  for (const char* span : {"1,250.50", "7:45", "03/12/2024", "2024", "7", "03/12/2024."}) {
    EXPECT_EQ(Matches(dfa, span), std::string_view(span) != "2024") << span;
  }
  for (const char* part : {"1", "250.50", "45", "7:4", "03/12"}) {
    EXPECT_FALSE(Matches(dfa, part)) << part;
  }
}

// Wherever a walk stands, a match can be reached; and what it wrote stands in the text.
TEST(CopyText, EveryWalkEndsInASpan) {
  const std::string text = "a b a b, ab a-b 1.5 a b\xE2\x80\xA6 1.5.2 b a b";
  std::bitset<256> without;
  without.set(',');
  const Dfa dfa = CopyAutomaton(text, kNull, without);
  std::mt19937 random(3);
  for (int walk = 0; walk < 500; ++walk) {
    std::string written;
    Dfa::State state = dfa.start();
    while (dfa.can_continue(state) && (!dfa.accepting(state) || random() % 3 != 0)) {
      const auto byte = static_cast<std::uint8_t>(random());
      const Dfa::State next = dfa.Next(state, byte);
      if (next == Dfa::kDead) continue;
      state = next;
      written += static_cast<char>(byte);
    }
    EXPECT_TRUE(dfa.accepting(state)) << written;
    EXPECT_TRUE(written == "null" || text.find(written) != std::string::npos) << written;
  }
}

// All texts of at most `most` of these letters.
std::vector<std::string> TextsOf(std::string_view letters, size_t most) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].size() == most) break;
    for (const char letter : letters) texts.push_back(texts[i] + letter);
  }
  return texts;
}

TEST(Joined, IsWhatTheNaiveMatcherFinds) {
  for (const char* pattern : {"a|ab", "a*", "(?:ab)?", "[ab]b", "a"}) {
    for (const char* separator : {",", "a", "b,"}) {
      const ExpressionPtr joined = Joined(WholeMatch(ParsePattern(pattern)), Literal(separator));
      const Dfa dfa{Nfa(*joined)};
      for (const std::string& text : TextsOf("ab,", 6)) {
        const std::u32string wide(text.begin(), text.end());
        const bool naive = testing_support::MatchEnds(*joined, wide, {0}).contains(text.size());
        EXPECT_EQ(Matches(dfa, text), naive)
            << pattern << " joined by " << separator << ": " << text;
      }
    }
  }
}

TEST(CopyText, SeveralSpansFollowOneAnother) {
  const std::string text = "Anna; Ruth and Tom; at 7:45; ; (Ida) null";
  const Dfa alone = CopyAutomaton(text, {}, {});
  const Dfa joined = CopyAutomaton(text, kNull, {}, {}, {}, /*joined=*/true);
  const auto spans = [&](auto& self, std::string_view said) -> bool {
    if (Matches(alone, said)) return true;
    for (size_t at = said.find("; "); at != said.npos; at = said.find("; ", at + 1)) {
      if (Matches(alone, said.substr(0, at)) && self(self, said.substr(at + 2))) return true;
    }
    return false;
  };
  const std::vector<std::string> parts = {"Anna",    "; ",   "Ruth", " and Tom", ";",    " ",
                                          "at 7:45", "7:45", "(Ida", "Id",       "null", "; null"};
  std::mt19937 random(7);
  int matched = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string said;
    for (size_t n = random() % 6; n-- > 0;) said += parts[random() % parts.size()];
    const bool right = said == "null" || spans(spans, said);
    EXPECT_EQ(Matches(joined, said), right) << said;
    matched += right ? 1 : 0;
  }
  EXPECT_GT(matched, 1000);
}

// Most states go on with one byte: a row for all of them would take 16 times as much.
TEST(CopyText, KeepsAboutOneEntryForEveryState) {
  std::mt19937 random(5);
  std::string text;
  for (int word = 0; word < 3000; ++word) {
    for (size_t n = 2 + random() % 7; n-- > 0;) text += static_cast<char>('a' + random() % 26);
    text += ' ';
  }
  const Dfa dfa = CopyAutomaton(text, kNull, {}, {}, {}, /*joined=*/true);
  EXPECT_GT(dfa.states(), text.size());
  EXPECT_LT(dfa.entries(), 3 * dfa.states());
}

// What `rag` reads at most: words of many letters, and lists, in which every word ends a span.
TEST(CopyText, AHundredAndSixtyKibibytesAreNotTooLong) {
  constexpr size_t kBytes = 160 << 10;
  const std::vector<std::string> letters = {"a", "e", "n", "t", "Ü", "é", "ł",
                                            "ø", "я", "д", "β", "ω", "日"};
  for (const char* between : {" ", "; ", "\n", ". "}) {
    std::mt19937 random(9);
    std::vector<std::string> words(4000);
    for (std::string& word : words) {
      for (size_t n = 2 + random() % 7; n-- > 0;) {
        word += random() % 2 == 0 ? letters[random() % letters.size()]
                                  : std::string(1, static_cast<char>('!' + random() % 94));
      }
    }
    std::string text;
    while (text.size() < kBytes) text += words[random() % words.size()] + between;
    const Dfa dfa = CopyAutomaton(text, kNull, {}, {}, {}, /*joined=*/true);
    EXPECT_GT(dfa.states(), 20000u);
    EXPECT_TRUE(Matches(dfa, text.substr(0, text.find(between))));
  }
}

TEST(CopyText, ATextOfNothingLeavesTheOthers) {
  EXPECT_TRUE(Matches(CopyAutomaton(" \n ", kNull, {}), "null"));
  EXPECT_FALSE(Matches(CopyAutomaton("", {}, {}), "null"));
  EXPECT_EQ(CopyAutomaton("", {}, {}, {}, " ").start(), Dfa::kDead);
}

TEST(CopyText, MayFollowASeparator) {
  const Dfa dfa = CopyAutomaton("Anna Walker steers.", kNull, {}, {}, " ");
  for (const char* text : {" Anna", " Walker steers", " null"}) {
    EXPECT_TRUE(Matches(dfa, text)) << text;
  }
  for (const char* text : {"Anna", "null", " ", "  Anna", " nul"}) {
    EXPECT_FALSE(Matches(dfa, text)) << text;
  }
}

TEST(CopyText, RefusesWhatIsTooLong) {
  DfaLimits limits;
  limits.states = 20;
  const std::string message = testing_support::ErrorMessage(ErrorKind::kLimit, [&] {
    (void)CopyAutomaton("one two three four five six seven", kNull, {}, limits);
  });
  EXPECT_NE(message.find("too long to copy"), std::string::npos) << message;
}

TEST(CopyText, TokensFollowTheText) {
  const auto trie = std::make_shared<const TokenTrie>(
      std::vector<std::string>{"An", "na", "n", "a", " W", "alker", "alk", "er", "null", "x", " ",
                               "A", "l", "k", "e", "r", "W", "u", "<end>"});
  ConstraintOptions options;
  options.canonical = false;
  options.end_tokens = {18};
  const auto copied = Constraint::FromCopies("Anna Walker", kNull, trie, options);
  ConstraintState state(copied);
  const auto allowed = [&] { return MaskTokens(*state.AllowedMask()); };
  EXPECT_EQ(allowed(), (std::vector<TokenId>{0, 2, 8, 11, 16}));  // An, n(ull), null, A, W
  ASSERT_TRUE(state.Advance(0));
  EXPECT_EQ(allowed(), (std::vector<TokenId>{1, 2}));
  ASSERT_TRUE(state.Advance(1));
  EXPECT_EQ(allowed(), (std::vector<TokenId>{4, 10, 18}));  // goes on, or ends
  EXPECT_FALSE(state.Advance(9));
}

}  // namespace

}  // namespace banyan
