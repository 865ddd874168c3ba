// Words cut by hand are those that PCRE2 cuts, for every known pattern and any text.
#include "text/tokenizer/split_patterns.h"

#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

#include "text/tokenizer/pretokenizer.h"
#include "text/unicode.h"

namespace banyan {

namespace {

using Words = std::vector<std::string>;

struct Chain {
  std::string name;
  std::vector<KnownStep> known;
  std::vector<PreTokenizerStep> steps;  // the same, by PCRE2
};

PreTokenizerStep ByPcre(const char* pattern) {
  return SplitRegexStep(std::make_shared<const Regex>(pattern, "test"), SplitBehavior::kIsolated,
                        false);
}

std::vector<Chain> Chains() {
  const PreTokenizerStep gpt2 = ByPcre(kGpt2Pattern);
  return {
      {"gpt2", {KnownStep::kGpt2, KnownStep::kByteLevel}, {gpt2}},
      {"gpt2 in byte-level", {KnownStep::kGpt2ByteLevel}, {gpt2}},
      {"llama3", {KnownStep::kLlama3, KnownStep::kByteLevel}, {ByPcre(kLlama3Pattern)}},
      {"qwen2", {KnownStep::kQwen2, KnownStep::kByteLevel}, {ByPcre(kQwen2Pattern)}},
      {"smollm (GGUF)",
       {KnownStep::kNumbersAlone, KnownStep::kGpt2, KnownStep::kByteLevel},
       {ByPcre(R"(\p{N})"), gpt2}},
      {"smollm",
       {KnownStep::kNumericsAlone, KnownStep::kGpt2ByteLevel},
       {SplitCharacterStep(IsNumeric, SplitBehavior::kIsolated), gpt2}},
      {"numbers, llama3",
       {KnownStep::kNumbersAlone, KnownStep::kLlama3, KnownStep::kByteLevel},
       {ByPcre(R"(\p{N})"), ByPcre(kLlama3Pattern)}},
  };
}

Words ByHand(const Chain& chain, const std::string& text) {
  const std::optional<WordSplitter> splitter = WordSplitter::For(chain.known);
  EXPECT_TRUE(splitter.has_value()) << chain.name;
  Words words;
  splitter->ForEachWord(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

Words BySteps(const Chain& chain, const std::string& text) {
  PreTokenized input;
  input.text = text;
  if (!text.empty()) input.pieces = {{0, text.size()}};
  for (const PreTokenizerStep& step : chain.steps) step(input);
  Words words;
  for (const TextRange& piece : input.pieces) {
    words.push_back(input.text.substr(piece.begin, piece.end - piece.begin));
  }
  return words;
}

std::string Utf8(char32_t code) {
  std::string text;
  AppendUtf8(code, text);
  return text;
}

// Parts that meet each other in all orders.
const char* const kParts[] = {" ",          "  ",
                              "\n",         "\r\n",
                              "\n\n",       "\t",
                              "\v",         "\f",
                              "\r",         "\u00a0",
                              "\u2003",     "\u3000",
                              "\u0085",     "\u2028",
                              "\u180e",     "\u200b",
                              "\u200d",     "\ufeff",
                              "a",          "word",
                              "Word",       "ABC",
                              "\u00e9",     "e\u0301",
                              "\u017f",     "\u212a",
                              "\u00df",     "1",
                              "22",         "12345",
                              "\u0661",     "\u00bd",
                              "\u2167",     "\u0e53",
                              "'",          "'s",
                              "'S",         "'\u017f",
                              "'re",        "'rE",
                              "'VE",        "'ll",
                              "'lL",        "'m",
                              "'d",         "'t",
                              "'T",         "'l",
                              "'r",         "'v",
                              "'x",         ".",
                              "...",        "!?",
                              "-",          "_",
                              "$",          "<",
                              "|>",         "\u2014",
                              "\u201c",     "\u0301",
                              "\u064b",     "\u4e2d",
                              "\u6587",     "\u3042",
                              "\uac00",     "\u0e01",
                              "\u0915",     "\u094d",
                              "\u0430",     "\u05d0",
                              "\U0001F600", "\U0001F44D\U0001F3FD",
                              "\U0001D7D8", "\U00020000",
                              "\U000E0061", "\uFFFD",
                              "\x7f"};

std::string RandomPart(std::mt19937& random) {
  const size_t i = random() % (std::size(kParts) + 1);
  return i < std::size(kParts) ? std::string(kParts[i]) : std::string(1, '\0');
}

TEST(WordSplitter, EqualsPcreOnRandomMixtures) {
  std::mt19937 random(7);
  const std::vector<Chain> chains = Chains();
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const size_t count = random() % 12;
    for (size_t i = 0; i < count; ++i) text += RandomPart(random);
    for (const Chain& chain : chains) {
      ASSERT_EQ(ByHand(chain, text), BySteps(chain, text)) << chain.name << ": '" << text << "'";
    }
  }
}

TEST(WordSplitter, EqualsPcreOnRandomCharacters) {
  std::mt19937 random(8);
  const std::vector<Chain> chains = Chains();
  const char32_t tops[] = {0x80, 0x100, 0x800, 0x3000, 0x10000, 0x20000, 0x110000};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    const size_t count = random() % 40;
    for (size_t i = 0; i < count; ++i) {
      const char32_t code = random() % tops[random() % std::size(tops)];
      text += code >= 0xD800 && code < 0xE000 ? std::string(" ") : Utf8(code);
    }
    for (const Chain& chain : chains) {
      ASSERT_EQ(ByHand(chain, text), BySteps(chain, text)) << chain.name << ": '" << text << "'";
    }
  }
}

// Bytes that are no UTF-8 reach the splitter as U+FFFD.
TEST(WordSplitter, EqualsPcreOnRepairedBytes) {
  std::mt19937 random(9);
  const std::vector<Chain> chains = Chains();
  for (int round = 0; round < 5000; ++round) {
    std::string bytes, text;
    const size_t count = random() % 40;
    for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(random());
    AppendLossyUtf8(bytes, text);
    for (const Chain& chain : chains) {
      ASSERT_EQ(ByHand(chain, text), BySteps(chain, text)) << chain.name << ": '" << text << "'";
    }
  }
}

// The words of a text are those of its parts, wherever it may be cut.
TEST(WordSplitter, CutsBeforeWordsChangeNothing) {
  std::mt19937 random(10);
  std::vector<Chain> chains = Chains();
  for (const char* pattern : {kQwen35Pattern, kTekkenPattern, kGpt4oPattern}) {
    ASSERT_EQ(KnownPattern(pattern), KnownStep::kOtherWords);
    chains.push_back({pattern, {KnownStep::kOtherWords, KnownStep::kByteLevel}, {ByPcre(pattern)}});
  }
  size_t cuts = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string text;
    for (size_t i = random() % 12; i > 0; --i) {
      text += RandomPart(random);
      if (random() % 4 == 0) text += random() % 2 == 0 ? "a b" : "\u00e9 \u4e2d";
    }
    for (size_t at = text.find(' '); at != std::string::npos; at = text.find(' ', at + 1)) {
      if (!IsCutBeforeWord(text, at)) continue;
      ++cuts;
      for (const Chain& chain : chains) {
        ASSERT_TRUE(AllowsCutsBeforeWords(chain.known));
        Words parts = BySteps(chain, text.substr(0, at));
        const Words rest = BySteps(chain, text.substr(at));
        parts.insert(parts.end(), rest.begin(), rest.end());
        ASSERT_EQ(parts, BySteps(chain, text)) << chain.name << ": '" << text << "' at " << at;
      }
    }
  }
  EXPECT_GT(cuts, 5000u);
}

TEST(WordSplitter, OtherChainsAreLeftToPcre) {
  using enum KnownStep;
  const std::vector<std::vector<KnownStep>> unknown = {
      {},
      {kByteLevel},
      {kGpt2},
      {kUnknown, kByteLevel},
      {kGpt2, kLlama3, kByteLevel},
      {kGpt2ByteLevel, kByteLevel},
      {kGpt2, kNumbersAlone, kByteLevel},
      {kNumbersAlone, kByteLevel},
      {kNumbersAlone, kNumericsAlone, kGpt2ByteLevel},
      {kLlama3, kByteLevel, kUnknown},
  };
  for (const std::vector<KnownStep>& chain : unknown) {
    EXPECT_FALSE(WordSplitter::For(chain).has_value());
    EXPECT_FALSE(AllowsCutsBeforeWords(chain));
  }
  EXPECT_EQ(KnownPattern(kLlama3Pattern), kLlama3);
  EXPECT_EQ(KnownPattern(std::string(kLlama3Pattern) + " "), kUnknown);
}

}  // namespace

}  // namespace banyan
