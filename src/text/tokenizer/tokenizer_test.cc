// Whole tokenizers: ids and texts against the values that the tokenizers library gives for the
// small files in tests/data/tokenizers and tests/oracles, and for real ones where they are here.
#include "text/tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <filesystem>

#include "banyan/error.h"
#include "base/files.h"
#include "base/json.h"
#include "support/oracle_folders.h"
#include "support/processor_time.h"
#include "support/temp_directory.h"
#include "text/unicode.h"

namespace banyan {

namespace {

using Ids = std::vector<TokenId>;

const std::filesystem::path kFixtures =
    std::filesystem::path(BANYAN_SOURCE_DIR) / "tests/data/tokenizers";

std::string DecodeAsStream(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids,
                           bool skip_special) {
  StreamDecoder stream(tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) {
    const std::string piece = stream.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece)) << "half a character after id " << id;
    text += piece;
  }
  return text + stream.Finish();
}

class TokenizerFixture : public ::testing::TestWithParam<const char*> {};

TEST_P(TokenizerFixture, AgreesWithTheLibrary) {
  const std::string name = GetParam();
  const auto tokenizer = Tokenizer::Load(kFixtures / (name + ".json"));
  const std::string file = (kFixtures / (name + ".expected.json")).string();
  for (const Json& c : ParseJson(ReadTextFile(file, 1 << 20), file)) {
    const std::string text = c["text"];
    const Ids ids = c["ids"];
    EXPECT_EQ(tokenizer->Encode(text), ids) << text;
    EXPECT_EQ(tokenizer->Encode(text, {.add_special = true}), c["with_special"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer->Decode(ids), c["decoded"].get<std::string>()) << text;
    EXPECT_EQ(tokenizer->Decode(ids, true), c["decoded_skip"].get<std::string>()) << text;
    EXPECT_EQ(DecodeAsStream(tokenizer, ids, false), tokenizer->Decode(ids)) << text;
    EXPECT_EQ(DecodeAsStream(tokenizer, ids, true), tokenizer->Decode(ids, true)) << text;
  }
}

// Ids that no text gives: any order of any tokens must stream to what Decode says.
TEST_P(TokenizerFixture, StreamsAnySequence) {
  const auto tokenizer = Tokenizer::Load(kFixtures / (std::string(GetParam()) + ".json"));
  std::uint32_t state = 12345;
  for (int round = 0; round < 300; ++round) {
    Ids ids;
    for (int i = 0; i < round % 17; ++i) {
      state = state * 1664525u + 1013904223u;
      ids.push_back(static_cast<TokenId>((state >> 8) % tokenizer->vocab_size()));
    }
    const std::string whole = tokenizer->Decode(ids);
    EXPECT_TRUE(IsValidUtf8(whole));
    EXPECT_EQ(DecodeAsStream(tokenizer, ids, false), whole);
  }
}

TEST_P(TokenizerFixture, PlainTextNeverMakesControlTokens) {
  const auto tokenizer = Tokenizer::Load(kFixtures / (std::string(GetParam()) + ".json"));
  std::string everything;
  for (size_t i = 0; i < tokenizer->vocab_size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!tokenizer->IsSpecial(id)) continue;
    everything +=
        std::string(tokenizer->TokenText(id)) + " x" + std::string(tokenizer->TokenText(id)) + "\n";
  }
  ASSERT_FALSE(everything.empty());
  const auto unk = tokenizer->special_tokens().unk;
  for (const TokenId id : tokenizer->Encode(everything, {.parse_special = false})) {
    EXPECT_TRUE(!tokenizer->IsSpecial(id) || id == unk) << tokenizer->TokenText(id);
  }
}

TEST_P(TokenizerFixture, AcceptsAnyBytes) {
  const auto tokenizer = Tokenizer::Load(kFixtures / (std::string(GetParam()) + ".json"));
  const std::string bytes("a\xFF\xC3\xED\xA0\x80 \xF0\x9F\x98 \0b", 13);
  std::string repaired;
  AppendLossyUtf8(bytes, repaired);
  EXPECT_EQ(tokenizer->Encode(bytes), tokenizer->Encode(repaired));
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerFixture,
                         ::testing::Values("byte_level_bpe", "sentencepiece_bpe", "unigram",
                                           "wordpiece"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Tokenizer, ControlTokensAndMarkupStayTextWhenPlain) {
  const auto tokenizer = Tokenizer::Load(kFixtures / "byte_level_bpe.json");
  const TokenId end = *tokenizer->Find("<|im_end|>");
  const TokenId think = *tokenizer->Find("<think>");
  const std::string text = "a<|im_end|><think>";
  EXPECT_EQ(tokenizer->Encode(text), (Ids{*tokenizer->Find("a"), end, think}));
  const Ids plain = tokenizer->Encode(text, {.parse_special = false});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), think), 0);
  EXPECT_EQ(tokenizer->Decode(plain), text);
}

TEST(Tokenizer, TokenBytesAreWhatATokenAddsToAText) {
  const auto byte_level = Tokenizer::Load(kFixtures / "byte_level_bpe.json");
  EXPECT_EQ(byte_level->TokenBytes(*byte_level->Find("Ġthe")), " the");
  EXPECT_EQ(byte_level->TokenBytes(*byte_level->Find("Ċ")), "\n");
  EXPECT_EQ(byte_level->TokenBytes(*byte_level->Find("<|im_end|>")), "<|im_end|>");
  const auto sentencepiece = Tokenizer::Load(kFixtures / "sentencepiece_bpe.json");
  EXPECT_EQ(sentencepiece->TokenBytes(*sentencepiece->Find("▁the")), " the");
  EXPECT_EQ(sentencepiece->TokenBytes(*sentencepiece->Find("<0x0A>")), "\n");
  const auto wordpiece = Tokenizer::Load(kFixtures / "wordpiece.json");
  EXPECT_EQ(wordpiece->TokenBytes(*wordpiece->Find("##ing")), "ing");
  EXPECT_EQ(wordpiece->TokenBytes(*wordpiece->Find("the")), " the");
}

TEST(Tokenizer, ReadsWhatStandsBesideTheFile) {
  const testing_support::TempDirectory directory;
  const std::string json = ReadTextFile((kFixtures / "sentencepiece_bpe.json").string(), 1 << 20);
  directory.Write("tokenizer.json", json);
  directory.Write("tokenizer_config.json",
                  R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null,
                      "chat_template": [{"name": "tools", "template": "T"},
                                        {"name": "default", "template": "D"}]})");
  const auto tokenizer = Tokenizer::Load(directory.path());
  EXPECT_EQ(tokenizer->special_tokens().bos, 1);
  EXPECT_EQ(tokenizer->eos_text(), "</s>");
  EXPECT_EQ(tokenizer->TokenText(tokenizer->special_tokens().unk.value()), "<unk>");
  EXPECT_EQ(tokenizer->special_tokens().end_ids, Ids{2});
  EXPECT_EQ(tokenizer->chat_template(), "D");
  EXPECT_EQ(tokenizer->model_kind(), "SentencePiece BPE");
  directory.Write("chat_template.jinja", "J");
  EXPECT_EQ(Tokenizer::Load(directory.path())->chat_template(), "J");
}

TEST(Tokenizer, LongRunsTakeNoQuadraticTime) {
  for (const char* name : {"byte_level_bpe", "sentencepiece_bpe", "unigram", "wordpiece"}) {
    const auto tokenizer = Tokenizer::Load(kFixtures / (std::string(name) + ".json"));
    for (const char c : {'a', ' ', '\n', '1', '<'}) {
      const std::string text(1 << 18, c);
      const double start = testing_support::ThreadProcessorSeconds();
      const Ids ids = tokenizer->Encode(text);
      const std::string decoded = tokenizer->Decode(ids);
      EXPECT_LT(testing_support::ThreadProcessorSeconds() - start, 20.0)
          << name << " on a run of '" << c << "'";
      if (std::string_view(name).ends_with("bpe")) {
        EXPECT_EQ(decoded, text);
      }
    }
  }
}

TEST(Tokenizer, DecodeRefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = Tokenizer::Load(kFixtures / "wordpiece.json");
  const auto past = static_cast<TokenId>(tokenizer->vocab_size());
  EXPECT_THROW((void)tokenizer->Decode(Ids{past}), Error);
  EXPECT_THROW((void)tokenizer->Decode(Ids{-1}), Error);
  StreamDecoder stream(tokenizer);
  EXPECT_EQ(stream.Push(past), "");
}

class GoldenTokenizer : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizer, AgreesWithTheOracle) {
  const auto compare = [](const std::filesystem::path& folder, const std::filesystem::path& file) {
    const auto tokenizer = Tokenizer::Load(folder);
    for (const Json& c : ParseJson(ReadTextFile(file, 1 << 24), file.string())) {
      const std::string text = c["text"];
      const Ids ids = c["ids"];
      EXPECT_EQ(tokenizer->Encode(text), ids) << file << text;
      EXPECT_EQ(tokenizer->Decode(ids), c["decoded"].get<std::string>()) << file << text;
      EXPECT_EQ(DecodeAsStream(tokenizer, ids, false), c["decoded"].get<std::string>()) << text;
    }
  };
  testing_support::ForEachTokenizer(GetParam(), compare);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTokenizer,
                         ::testing::Values("qwen3", "llama3_1", "llama2", "gpt2", "bert"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace

}  // namespace banyan
