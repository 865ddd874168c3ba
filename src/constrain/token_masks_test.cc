// Masks: every token against the automaton, one by one; and walks that follow them to a match.
#include "constrain/token_masks.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <random>
#include <thread>

#include "banyan/constrain.h"
#include "constrain/constraint.h"
#include "constrain/matcher_fixture.h"
#include "constrain/regex_parser.h"
#include "support/error_message.h"
#include "support/random_match.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

namespace {

using testing_support::NaivelyMatches;
using testing_support::RandomMatches;
using testing_support::RandomPatterns;

// All single bytes, pieces of characters, and runs of them: 2000 tokens, some of them the same.
std::vector<std::string> RandomTokens(unsigned seed) {
  RandomPatterns random(seed);
  std::vector<std::string> tokens = {"", "<s>"};
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  static constexpr const char* kMore[] = {"\"", "\\", "\n", " ", "word", "1", "{", "}", ":", ","};
  while (tokens.size() < 2000) {
    std::string token;
    for (size_t n = 1 + random.Below(5); n > 0; --n) {
      token += random.Below(4) == 0 ? kMore[random.Below(std::size(kMore))] : random.Character();
    }
    const size_t begin = random.Below(5) == 0 ? random.Below(token.size()) : 0;
    token.erase(0, begin);
    if (random.Below(5) == 0) token.resize(1 + random.Below(token.size()));
    tokens.push_back(token);
  }
  tokens[1].clear();  // stands for a control token
  tokens.push_back(std::string(300, 'a'));
  tokens.push_back(std::string(33, 'b'));
  return tokens;
}

bool IsSet(const std::vector<std::uint32_t>& mask, size_t token) {
  return (mask[token / 32] >> (token % 32) & 1) != 0;
}

TEST(TokenTrie, AllowsExactlyWhatTheAutomatonFollows) {
  const std::vector<std::string> tokens = RandomTokens(1);
  const TokenTrie trie(tokens);
  RandomPatterns random(2);
  std::mt19937 choose(3);
  std::vector<std::string> patterns = {
      ".*",           "[^\\n]{1,40}\\n", R"("([^"\\\x00-\x1f]|\\.){0,30}")",
      "a{0,400}",     "(.|\\n)*",        ".{3}",
      "[^\"]{0,2}x?", "[ab]{0,32}"};
  for (int i = 0; i < 200; ++i) patterns.push_back(random.SmallPattern());
  size_t allowed = 0;
  for (const std::string& pattern : patterns) {
    const Dfa dfa{Nfa(*WholeMatch(ParsePattern(pattern)))};
    for (int i = 0; i < 5; ++i) {
      const auto state = static_cast<Dfa::State>(1 + choose() % (dfa.states() - 1));
      const MaskWords mask = trie.Allowed(dfa, state);
      ASSERT_EQ(mask.size(), trie.words());
      for (size_t t = 0; t < mask.size() * 32; ++t) {
        const bool expected =
            t < tokens.size() && !tokens[t].empty() && dfa.Next(state, tokens[t]) != Dfa::kDead;
        ASSERT_EQ(IsSet(mask, t), expected) << pattern << " token " << t;
        allowed += expected ? 1 : 0;
      }
    }
  }
  EXPECT_GT(allowed, 50000u);
}

TEST(ConstraintState, StaysWhereItIsWhenATokenIsNotAllowed) {
  const auto trie =
      std::make_shared<const TokenTrie>(std::vector<std::string>{"a", "b", "ab", "", "abc"});
  ConstraintState state(Constraint::FromRegex("ab", trie));
  EXPECT_EQ(MaskTokens(*state.AllowedMask()), (std::vector<TokenId>{0, 2}));
  EXPECT_FALSE(state.Advance(1));
  EXPECT_FALSE(state.Advance(3));
  EXPECT_FALSE(state.Advance(4));
  EXPECT_FALSE(state.Advance(-1));
  EXPECT_FALSE(state.Advance(5));
  EXPECT_TRUE(state.Advance(0));
  EXPECT_FALSE(state.MayEnd());
  EXPECT_TRUE(state.Advance(1));
  EXPECT_TRUE(state.MayEnd());
  EXPECT_TRUE(state.MustEnd());
  EXPECT_TRUE(MaskTokens(*state.AllowedMask()).empty());
}

// The shipped model's tokenizer.
std::shared_ptr<const TokenTrie> RealTrie() {
  static const auto trie = std::make_shared<const TokenTrie>(
      Tokenizer::Load(BANYAN_SOURCE_DIR "/models/banyan-reader-34m.gguf"));
  return trie;
}

// The allowed token that comes nearest to an end.
TokenId Nearest(const Dfa& dfa, const RandomMatches& ends, const TokenTrie& trie,
                std::string_view text, const std::vector<TokenId>& allowed) {
  const Dfa::State state = dfa.Next(dfa.start(), text);
  return *std::ranges::min_element(allowed, {}, [&](TokenId token) {
    return ends.Distance(dfa.Next(state, trie.Bytes(token)));
  });
}

// Random walks along the masks of random patterns, which turn to an end after a while; `end` is a
// token that is no text.
void WalkRandomPatterns(const std::shared_ptr<const TokenTrie>& trie, TokenId end) {
  RandomPatterns random(5);
  std::mt19937 choose(6);
  for (int round = 0; round < 600; ++round) {
    const std::string pattern = random.SmallPattern();
    const ExpressionPtr expression = WholeMatch(ParsePattern(pattern));
    const auto constraint = Constraint::FromRegex(pattern, trie, {.end_tokens = {end}});
    const Dfa& dfa = constraint->parts().dfa;
    const RandomMatches ends(dfa);
    ConstraintState state(constraint);
    std::string text;
    bool ended = false;
    for (int step = 0; step < 200 && !ended; ++step) {
      const auto mask = state.AllowedMask();
      ASSERT_EQ(IsSet(*mask, static_cast<size_t>(end)), state.MayEnd());
      const std::vector<TokenId> allowed = MaskTokens(*mask);
      ASSERT_FALSE(allowed.empty()) << pattern << " after " << text;  // never a dead end
      TokenId token = allowed[choose() % allowed.size()];
      ended = token == end || (state.MayEnd() && (state.MustEnd() || step >= 20));
      if (ended) break;
      if (step >= 20) token = Nearest(dfa, ends, *trie, text, allowed);
      ASSERT_TRUE(state.Advance(token));
      text += trie->Bytes(token);
    }
    ASSERT_TRUE(ended) << pattern << " after " << text;
    ASSERT_TRUE(NaivelyMatches(*expression, text)) << pattern << " on " << text;
    ASSERT_TRUE(constraint->Matches(text));
  }
}

TEST(ConstraintState, WalksThroughMasksEndInAMatch) {
  WalkRandomPatterns(std::make_shared<const TokenTrie>(RandomTokens(4)), 1);
}

TEST(ConstraintState, WalksOfARealTokenizerEndInAMatch) {
  WalkRandomPatterns(RealTrie(), RealTrie()->tokenizer()->special_tokens().eos.value());
}

TEST(TokenTrie, LeavesOutWhatIsNotText) {
  const Tokenizer& tokenizer = *RealTrie()->tokenizer();
  const Dfa dfa{Nfa(*WholeMatch(ParsePattern("(.|\\n)*")))};
  const MaskWords mask = RealTrie()->Allowed(dfa, dfa.start());
  for (size_t t = 0; t < tokenizer.vocab_size(); ++t) {
    const auto token = static_cast<TokenId>(t);
    const bool is_text = !tokenizer.IsSpecial(token) && !tokenizer.IsAdded(token);
    const bool expected = is_text && dfa.Next(dfa.start(), tokenizer.TokenBytes(token)) != 0;
    ASSERT_EQ(IsSet(mask, t), expected) << tokenizer.TokenText(token);
  }
}

// Where only one text can follow, masks lead along the tokenizer's own tokens, and there alone.
TEST(ConstraintState, SpellsForcedTextAsTheTokenizerDoes) {
  const std::string text = "The ferry Marigold leaves at 7:45, \"every\" morning in 日本.";
  std::vector<TokenId> written;
  ConstraintState state(
      Constraint::FromRegex("The ferry Marigold leaves at 7:45, \"every\" "
                            "morning in 日本\\.",
                            RealTrie()));
  while (!state.MustEnd()) {
    const std::vector<TokenId> allowed = MaskTokens(*state.AllowedMask());
    ASSERT_EQ(allowed.size(), 1u);
    written.push_back(allowed[0]);
    ASSERT_TRUE(state.Advance(allowed[0]));
  }
  EXPECT_EQ(RealTrie()->tokenizer()->Decode(written), text);
  const Tokenizer::Piece piece{text, true};
  EXPECT_EQ(written, RealTrie()->tokenizer()->EncodeRest({&piece, 1}));

  ConstraintOptions any;
  any.canonical = false;
  const ConstraintState free(Constraint::FromRegex("The ferry", RealTrie(), any));
  EXPECT_GT(MaskTokens(*free.AllowedMask()).size(), 1u);
  // " morning" or " noon" may be one token: the space is forced, its token is not.
  ConstraintState open(Constraint::FromRegex("at (morning|noon)", RealTrie()));
  ASSERT_TRUE(open.Advance(RealTrie()->LongestPrefix("at").value()));
  EXPECT_GT(MaskTokens(*open.AllowedMask()).size(), 1u);
}

TEST(MaskCache, SharesEqualMasksAndStaysWithinItsMemory) {
  const auto trie = std::make_shared<const TokenTrie>(RandomTokens(9));
  const auto constraint =
      Constraint::FromRegex("[ab]{0,1000}", trie, {.end_tokens = {}, .mask_bytes = 4000});
  MaskCache& masks = constraint->parts().masks;
  const Dfa& dfa = constraint->parts().dfa;
  const auto kept = masks.Get(dfa.start());
  const MaskWords copy = *kept;
  for (Dfa::State state = 1; state < dfa.states(); ++state) {
    ASSERT_EQ(*masks.Get(state), trie->Allowed(dfa, state));
    ASSERT_LE(masks.counts().masks * trie->words() * 4 + masks.counts().states * 64, 4400u);
  }
  EXPECT_EQ(*kept, copy);  // still valid, though long forgotten

  const auto roomy = Constraint::FromRegex("[ab]{0,1000}", trie);
  for (Dfa::State s = 1; s < dfa.states(); ++s) (void)roomy->parts().masks.Get(s);
  EXPECT_EQ(roomy->parts().masks.counts().states, dfa.states() - 1);
  EXPECT_LT(roomy->parts().masks.counts().masks, 100u);
}

TEST(MaskCache, MayBeAskedByManyThreads) {
  const auto trie = std::make_shared<const TokenTrie>(RandomTokens(10));
  const auto constraint = Constraint::FromRegex("([a-c]{0,50}é|[^x]{3,9}日)*", trie,
                                                {.end_tokens = {}, .mask_bytes = 20000});
  const Dfa& dfa = constraint->parts().dfa;
  std::vector<MaskWords> expected(dfa.states());
  for (Dfa::State s = 1; s < dfa.states(); ++s) expected[s] = trie->Allowed(dfa, s);
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      for (int i = 0; i < 2000; ++i) {
        const auto state = static_cast<Dfa::State>(1 + random() % (dfa.states() - 1));
        if (*constraint->parts().masks.Get(state) != expected[state]) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

TEST(Constraint, RefusesBytesWithoutAToken) {
  const auto trie = std::make_shared<const TokenTrie>(std::vector<std::string>{"a", "ab", "c"});
  EXPECT_TRUE(Constraint::FromRegex("[ac]*", trie)->Matches("aca"));
  const std::string message = testing_support::ErrorMessage(
      ErrorKind::kUnsupported, [&] { (void)Constraint::FromRegex("[a-c]*", trie); });
  EXPECT_NE(message.find("0x62"), std::string::npos) << message;
}

TEST(Constraint, LeavesOutRareCharactersWithoutAToken) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    const bool missing = byte == 4 || byte == 0xF1;
    tokens.push_back(missing ? "" : std::string(1, static_cast<char>(byte)));
  }
  const auto trie = std::make_shared<const TokenTrie>(tokens);
  const auto any = Constraint::FromRegex("x.*", trie);
  EXPECT_TRUE(any->Matches("x\xF0\x9F\x8C\xB3 and \xE6\x9C\xA8"));
  EXPECT_FALSE(any->Matches("x\xF1\x80\x80\x80"));
  ConstraintState state(any);
  ASSERT_TRUE(state.Advance('x'));
  const auto mask = state.AllowedMask();
  EXPECT_TRUE(IsSet(*mask, 0xF0));
  EXPECT_FALSE(IsSet(*mask, 0xF1));
  // Where nothing else may stand there is nothing to write.
  const std::string message = testing_support::ErrorMessage(
      ErrorKind::kUnsupported, [&] { (void)Constraint::FromRegex("a\\x04b", trie); });
  EXPECT_NE(message.find("no token"), std::string::npos) << message;
}

TEST(Constraint, RefusesEndTokensOutsideTheVocabulary) {
  const auto trie = std::make_shared<const TokenTrie>(std::vector<std::string>{"a", "b"});
  const std::string message = testing_support::ErrorMessage(
      ErrorKind::kInput, [&] { (void)Constraint::FromRegex("a", trie, {.end_tokens = {2}}); });
  EXPECT_NE(message.find("end token 2"), std::string::npos);
}

}  // namespace

}  // namespace banyan
