// The fast path from words to ids (WordSplitter, WordCache) against the slow one, and by many
// threads at once against one.
#include <gtest/gtest.h>
#include <filesystem>
#include <random>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "support/oracle_folders.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

namespace {

using Ids = std::vector<TokenId>;

const std::filesystem::path kTokenizerFiles =
    std::filesystem::path(BANYAN_SOURCE_DIR) / "tests/data/tokenizers";

std::string RandomText(std::mt19937& random, size_t parts) {
  static const char* const list[] = {"the",
                                     " the",
                                     " tower",
                                     " was",
                                     " built",
                                     " in",
                                     " 1889",
                                     " by",
                                     "it's",
                                     " Paris",
                                     "\u00e9t\u00e9",
                                     " (see)",
                                     "a-b",
                                     "12345",
                                     "  ",
                                     "\n",
                                     "\n\n",
                                     "\r\n",
                                     "\t",
                                     " \u4e2d\u6587",
                                     "\u0301",
                                     "'LL",
                                     "...",
                                     "<s>",
                                     "</s>",
                                     "<|im_end|>",
                                     "\U0001F600",
                                     "\xff",
                                     "\xc3",
                                     "\u3000",
                                     " \u0438\u043b\u0438",
                                     " internationalisation",
                                     " supercalifragilisticexpialidociousness",
                                     "=========="};
  std::string text;
  for (size_t i = 0; i < parts; ++i) text += list[random() % std::size(list)];
  return text;
}

// The same tokenizer in a spelling that only PCRE2 knows: groups around a pattern change nothing.
std::string WithUnknownPatterns(const std::string& tokenizer_json) {
  Json json = ParseJson(tokenizer_json, "test");
  Json& pre = json["pre_tokenizer"];
  if (pre["type"] == "ByteLevel" && pre.value("use_regex", true)) {
    const Json gpt2 = {
        {"type", "Split"},
        {"pattern",
         {{"Regex",
           R"((?:'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+))"}}},
        {"behavior", "Isolated"},
        {"invert", false}};
    Json bytes = pre;
    bytes["use_regex"] = false;
    pre = {{"type", "Sequence"}, {"pretokenizers", {gpt2, bytes}}};
    return json.dump();
  }
  for (Json& step : pre["pretokenizers"]) {
    if (step["type"] != "Split") continue;
    Json& regex = step["pattern"]["Regex"];
    regex = "(?:" + regex.get<std::string>() + ")";
  }
  return json.dump();
}

void CompareWays(const std::string& tokenizer_json) {
  const auto fast = Tokenizer::FromHuggingFaceText(tokenizer_json, "", "fast");
  const auto slow = Tokenizer::FromHuggingFaceText(WithUnknownPatterns(tokenizer_json), "", "slow");
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const std::string text = RandomText(random, random() % 30);
    for (const bool parse_special : {true, false}) {
      const EncodeOptions options{.add_special = false, .parse_special = parse_special};
      ASSERT_EQ(fast->Encode(text, options), slow->Encode(text, options)) << text;
    }
    const std::vector<Tokenizer::Piece> pieces = {
        {"<s>Read.", false}, {text, true}, {"</s>\n", false}};
    ASSERT_EQ(fast->EncodePieces(pieces), slow->EncodePieces(pieces)) << text;
  }
}

void CompareThreads(const std::shared_ptr<const Tokenizer>& tokenizer) {
  std::mt19937 random(4);
  std::vector<std::string> texts;
  std::vector<Ids> alone;
  for (int i = 0; i < 400; ++i) {
    texts.push_back(RandomText(random, 1 + random() % 60));
    alone.push_back(tokenizer->Encode(texts.back(), {.parse_special = false}));
  }
  std::vector<std::vector<Ids>> found(4, std::vector<Ids>(texts.size()));
  std::vector<std::vector<std::string>> decoded(4, std::vector<std::string>(texts.size()));
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < found.size(); ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < texts.size(); ++i) {
          const size_t at = (i * 7 + t * 101) % texts.size();  // each in an order of its own
          found[t][at] = tokenizer->Encode(texts[at], {.parse_special = false});
          decoded[t][at] = tokenizer->Decode(found[t][at]);
        }
      });
    }
  }
  for (size_t t = 0; t < found.size(); ++t) {
    EXPECT_EQ(found[t], alone) << "thread " << t;
    EXPECT_EQ(decoded[t], decoded[0]) << "thread " << t;
  }
}

TEST(FastEncode, EqualsTheSlowWay) {
  CompareWays(ReadTextFile(kTokenizerFiles / "byte_level_bpe.json", 1 << 20));
}

class FastEncodeReal : public ::testing::TestWithParam<const char*> {};

TEST_P(FastEncodeReal, EqualsTheSlowWay) {
  testing_support::ForEachTokenizer(
      GetParam(), [](const std::filesystem::path& folder, const std::filesystem::path&) {
        CompareWays(ReadTextFile(folder / "tokenizer.json", size_t{1} << 28));
      });
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, FastEncodeReal,
                         ::testing::Values("gpt2", "llama3_1", "qwen3"));

TEST(FastEncode, ManyThreadsGetTheIdsOfOne) {
  for (const char* name : {"byte_level_bpe", "sentencepiece_bpe", "unigram", "wordpiece"}) {
    SCOPED_TRACE(name);
    CompareThreads(Tokenizer::Load(kTokenizerFiles / (std::string(name) + ".json")));
  }
}

// A thread's cache has words of several tokenizers, and of plain text and other.
TEST(FastEncode, TokenizersDoNotMixTheirWords) {
  const auto bpe = Tokenizer::Load(kTokenizerFiles / "byte_level_bpe.json");
  const auto unigram = Tokenizer::Load(kTokenizerFiles / "unigram.json");
  for (int round = 0; round < 3; ++round) {
    const std::string text = "the the house <s> it's\nthe";
    std::vector<Ids> fresh(4);
    std::jthread([&] {  // with an empty cache
      fresh[0] = bpe->Encode(text);
    })
        .join();
    std::jthread([&] { fresh[1] = bpe->Encode(text, {.parse_special = false}); }).join();
    std::jthread([&] { fresh[2] = unigram->Encode(text); }).join();
    std::jthread([&] { fresh[3] = unigram->Encode(text, {.parse_special = false}); }).join();
    EXPECT_EQ(bpe->Encode(text), fresh[0]);
    EXPECT_EQ(bpe->Encode(text, {.parse_special = false}), fresh[1]);
    EXPECT_EQ(unigram->Encode(text), fresh[2]);
    EXPECT_EQ(unigram->Encode(text, {.parse_special = false}), fresh[3]);
  }
}

}  // namespace

}  // namespace banyan
