// The stages of the pipeline on their own. Expected values: the tokenizers library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/error.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/pretokenizer.h"
#include "text/tokenizer/vocabulary.h"
#include "text/unicode.h"

namespace banyan {

namespace {

using ::testing::ElementsAre;
using Words = std::vector<std::string>;

Words Cut(const PreTokenizerStep& step, const std::string& text) {
  PreTokenized input;
  input.text = text;
  if (!text.empty()) input.pieces = {{0, text.size()}};
  step(input);
  Words out;
  for (const TextRange& r : input.pieces)
    out.push_back(input.text.substr(r.begin, r.end - r.begin));
  return out;
}

std::string Normalized(const NormalizerStep& step, std::string text) {
  Normalizer normalizer;
  normalizer.Add(step);
  normalizer.Apply(text);
  return text;
}

std::shared_ptr<const Regex> Pattern(const std::string& pattern) {
  return std::make_shared<const Regex>(pattern, "test");
}

TEST(Utf8, CutsIllFormedTextIntoMaximalParts) {
  const auto lossy = [](std::string_view bytes) {
    std::string out;
    AppendLossyUtf8(bytes, out);
    return out;
  };
  EXPECT_EQ(lossy("a\xFFz"), "a\uFFFDz");
  EXPECT_EQ(lossy("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(lossy("\xF0\x9F\x41"), "\uFFFDA");
  EXPECT_EQ(lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(lossy("\xC0\xAF"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(lossy("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(FinishedUtf8Prefix("ab\xF0\x9F\x98"), 2u);
  EXPECT_EQ(FinishedUtf8Prefix("ab\xC3\xA9"), 4u);
  EXPECT_EQ(FinishedUtf8Prefix("ab\xFF"), 3u);
  EXPECT_EQ(FinishedUtf8Prefix("\xE2\x82"), 0u);
}

TEST(Vocabulary, FindsTextsAndIds) {
  Vocabulary vocabulary;
  for (int i = 0; i < 1000; ++i) vocabulary.Add(i * 2, "t" + std::to_string(i), "test");
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(vocabulary.Find("t" + std::to_string(i)), i * 2);
    EXPECT_EQ(vocabulary.Text(i * 2), "t" + std::to_string(i));
  }
  EXPECT_EQ(vocabulary.size(), 1999u);
  EXPECT_FALSE(vocabulary.Has(1));
  EXPECT_EQ(vocabulary.Find("t"), std::nullopt);
  EXPECT_THROW(vocabulary.Add(-1, "x", "test"), Error);
  EXPECT_THROW(vocabulary.Add(Vocabulary::kMaxId + 1, "x", "test"), Error);
}

TEST(ByteTrie, VisitsEveryPrefix) {
  const ByteTrie trie({{"a", 1}, {"abc", 2}, {"abd", 3}, {"b", 4}, {"", 5}, {"a", 6}});
  std::vector<std::pair<size_t, int>> found;
  trie.ForEachPrefix("xabcd", 1, [&](size_t n, int v) { found.emplace_back(n, v); });
  EXPECT_THAT(found, ElementsAre(std::pair(1u, 1), std::pair(3u, 2)));
  EXPECT_TRUE(ByteTrie().empty());
}

TEST(PreTokenizer, SplitBehaviours) {
  const auto cut = [](SplitBehavior behavior, bool invert) {
    return Cut(SplitRegexStep(Pattern("-"), behavior, invert), "the-final--countdown");
  };
  EXPECT_THAT(cut(SplitBehavior::kRemoved, false), ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(cut(SplitBehavior::kIsolated, false),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(cut(SplitBehavior::kMergedWithPrevious, false),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(cut(SplitBehavior::kMergedWithNext, false),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(cut(SplitBehavior::kContiguous, false),
              ElementsAre("the", "-", "final", "--", "countdown"));
  EXPECT_THAT(cut(SplitBehavior::kRemoved, true), ElementsAre("-", "-", "-"));
}

TEST(PreTokenizer, PatternsMeanWhatOnigurumaMeans) {
  const auto words = [](const std::string& pattern, const std::string& text) {
    return Cut(SplitRegexStep(Pattern(pattern), SplitBehavior::kRemoved, true), text);
  };
  EXPECT_THAT(words("\\s+", "a\u180Eb\u2028c"), ElementsAre("\u2028"));
  EXPECT_THAT(words("[^\\s]+", "a\u180Eb\u2028c"), ElementsAre("a\u180Eb", "c"));
  EXPECT_THAT(words("\\w+", "a_\u0301\u00BD ①ⅷ"), ElementsAre("a_\u0301\u00BD", "ⅷ"));
  EXPECT_THAT(words("(?=[A-Z])", "aBcD"), ElementsAre());
  EXPECT_THROW(Pattern("[a-z&&[aeiou]]"), Error);
  EXPECT_THROW(Pattern("("), Error);
}

TEST(PreTokenizer, MetaspaceSchemes) {
  const auto cut = [](PrependScheme prepend, bool split, const std::string& text) {
    return Cut(MetaspaceStep({.prepend = prepend, .split = split}), text);
  };
  EXPECT_THAT(cut(PrependScheme::kAlways, true, "a b  c"), ElementsAre("▁a", "▁b", "▁", "▁c"));
  EXPECT_THAT(cut(PrependScheme::kNever, true, "a b"), ElementsAre("a", "▁b"));
  EXPECT_THAT(cut(PrependScheme::kAlways, false, " a b"), ElementsAre("▁a▁b"));
}

TEST(PreTokenizer, WordsAndPunctuation) {
  EXPECT_THAT(Cut(WhitespaceStep(), "Hey, don't! é"),
              ElementsAre("Hey", ",", "don", "'", "t", "!", "é"));
  EXPECT_THAT(Cut(BertPreTokenizerStep(), "Hey,\ndon't  $5"),
              ElementsAre("Hey", ",", "don", "'", "t", "$", "5"));
  EXPECT_THAT(Cut(ByteLevelPreTokenizerStep(Pattern(kGpt2Pattern), true), "I'm é\n"),
              ElementsAre("ĠI", "'m", "ĠÃ©", "Ċ"));
}

TEST(Normalizer, Steps) {
  EXPECT_EQ(Normalized(NormalFormStep(NormalForm::kNfc), "e\u0301"), "é");
  EXPECT_EQ(Normalized(NormalFormStep(NormalForm::kNfkd), "ﬁ"), "fi");
  EXPECT_EQ(Normalized(LowercaseStep(), "ÀİΣ"), "ài\u0307σ");
  EXPECT_EQ(Normalized(BertStep({}), "H\u00e9\u4e2d\x01\tX"), "he 中  x");
  EXPECT_EQ(Normalized(StripStep(true, false), " \u3000a "), "a ");
  EXPECT_EQ(Normalized(StripStep(true, true), " \n "), "");
  EXPECT_EQ(Normalized(PrependStep("_"), ""), "");
  EXPECT_EQ(Normalized(ReplaceRegexStep(Pattern(" {2,}"), "_"), "a  b c   "), "a_b c_");
  EXPECT_EQ(Normalized(ReplaceStringStep(".", "!"), "a.b"), "a!b");
}

// A table with one key, laid out by hand: each byte's node lies in its own block of 256 units.
std::string OneKeyCharsmap(std::string_view key, std::string_view replacement) {
  std::vector<std::uint32_t> units(256 * (key.size() + 2), 0);
  std::uint32_t node = 0;
  std::uint32_t label = 0;
  for (std::uint32_t i = 0; i <= key.size(); ++i) {
    const std::uint32_t offset = node ^ (256 * (i + 1));
    const bool last = i == key.size();
    units[node] = (offset << 10) | label | (last ? 0x100u : 0u);
    if (last) {
      units[node ^ offset] = 0x80000000u;  // its text begins at 0
    } else {
      label = static_cast<unsigned char>(key[i]);
      node = node ^ offset ^ label;
    }
  }
  std::string blob(4 + units.size() * 4, '\0');
  const auto put = [&](size_t at, std::uint32_t value) {
    for (size_t b = 0; b < 4; ++b) blob[at + b] = static_cast<char>(value >> (8 * b));
  };
  put(0, static_cast<std::uint32_t>(units.size() * 4));
  for (size_t i = 0; i < units.size(); ++i) put(4 + i * 4, units[i]);
  return blob.append(replacement).append(1, '\0');
}

TEST(Charsmap, ReplacesGraphemesAndLongestMatches) {
  const auto map = std::make_shared<const Charsmap>(OneKeyCharsmap("ﬁ", "fi"), "test");
  // The library looks up a whole cluster and takes the first prefix found: the accent is lost.
  EXPECT_EQ(Normalized(CharsmapStep(map), "oﬁt ﬁ\u0301"), "ofit fi");
  EXPECT_EQ(Normalized(SentencePieceStep(map, {}), "  oﬁ  t "), "▁ofi▁t");
  EXPECT_EQ(Normalized(SentencePieceStep(nullptr, {.add_prefix = true, .merge_runs = false}), " a"),
            "▁▁a");
}

TEST(Charsmap, DamagedTablesAreRefusedOrHarmless) {
  EXPECT_THROW(Charsmap("abc", "test"), Error);
  EXPECT_THROW(Charsmap(std::string("\xFF\xFF\0\0xyz", 7), "test"), Error);
  EXPECT_THROW(DecodeBase64("!!", "test"), Error);
  EXPECT_EQ(DecodeBase64("aGk=", "test"), "hi");
  std::string blob = OneKeyCharsmap("ﬁ", "fi");
  for (size_t i = 4; i < blob.size(); i += 3) {
    std::string damaged = blob;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x5A);
    try {
      const auto map = std::make_shared<const Charsmap>(damaged, "test");
      Normalized(SentencePieceStep(map, {}), "oﬁt");
      Normalized(CharsmapStep(map), "oﬁt");
    } catch (const Error&) {
    }
  }
}

// Pushes piece by piece; `parts` shows what came out after each.
Words Stream(const std::vector<DecoderStep>& steps, const Words& pieces) {
  Decoder decoder;
  for (const DecoderStep& step : steps) decoder.Add(step);
  DecoderChain chain(decoder);
  Words parts;
  for (const std::string& piece : pieces) parts.push_back(chain.Push(piece));
  parts.push_back(chain.Finish());
  return parts;
}

TEST(Decoder, HoldsHalfCharacters) {
  EXPECT_THAT(Stream({ByteLevelDecoderStep()}, {"ðŁ", "ĺĢ", "Ġa", "ðŁ"}),
              ElementsAre("", "😀", " a", "", "\uFFFD"));
  EXPECT_THAT(Stream({ByteFallbackStep(false)}, {"<0xC3>", "<0xA9>", "x", "<0xFF>", "<0x41>"}),
              ElementsAre("", "", "éx", "", "", "\uFFFD\uFFFD"));
}

TEST(Decoder, StripsAcrossPieces) {
  const DecoderStep strip = StripDecoderStep({.content = ' ', .start = 2, .stop = 1}, true);
  EXPECT_THAT(Stream({FuseStep(), strip}, {" ", " ", " a", " ", " "}),
              ElementsAre("", "", " a", "", " ", ""));
  EXPECT_THAT(Stream({FuseStep(), strip}, {"a "}), ElementsAre("a", ""));
}

TEST(Decoder, ReplacesAcrossPieces) {
  const DecoderStep replace = ReplaceStringDecoderStep("aab", "-", true);
  EXPECT_THAT(Stream({FuseStep(), replace}, {"xa", "a", "a", "b", "aa"}),
              ElementsAre("x", "", "a", "-", "", "aa"));
}

TEST(Decoder, WordsAndSuffixes) {
  EXPECT_THAT(Stream({WordPieceDecoderStep("##", true, false)}, {"do", "##n", "'", "t", "."}),
              ElementsAre("do", "n", " '", " t", ".", ""));
  EXPECT_THAT(Stream({BpeDecoderStep("</w>", false)}, {"a</w>", "b</w>"}),
              ElementsAre("", "a ", "b"));
  EXPECT_THAT(Stream({MetaspaceDecoderStep("▁", PrependScheme::kAlways, false)}, {"▁a", "▁b"}),
              ElementsAre("a", " b", ""));
  EXPECT_THAT(Stream({JoinWithSpacesStep()}, {"a", "b"}), ElementsAre("a", " b", ""));
}

}  // namespace

}  // namespace banyan
