// Tokenizers from GGUF metadata: small files made here, and the vocabulary oracles.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <filesystem>
#include <limits>
#include <sstream>

#include "base/files.h"
#include "formats/gguf.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"
#include "support/oracle_folders.h"
#include "text/tokenizer/split_patterns.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

namespace {

using testing_support::ErrorMessage;
using testing_support::GgufWriter;
using Ids = std::vector<TokenId>;

struct SmallVocabulary {
  std::string model;
  std::vector<std::string> tokens = {};
  std::vector<std::int32_t> types = {};
  std::vector<float> scores = {};
  std::vector<std::string> merges = {};
};

GgufWriter Write(const SmallVocabulary& v) {
  GgufWriter writer;
  writer.String("tokenizer.ggml.model", v.model);
  writer.Strings("tokenizer.ggml.tokens", v.tokens);
  writer.Array<std::int32_t>("tokenizer.ggml.token_type", 5, v.types);
  if (!v.scores.empty()) writer.Array<float>("tokenizer.ggml.scores", 6, v.scores);
  if (!v.merges.empty()) writer.Strings("tokenizer.ggml.merges", v.merges);
  return writer;
}

std::shared_ptr<const Tokenizer> Open(const GgufWriter& writer) {
  const std::string bytes = writer.Bytes();
  return Tokenizer::FromGguf(GgufFile(std::as_bytes(std::span(bytes)), "test.gguf"));
}

SmallVocabulary LlamaVocabulary() {
  SmallVocabulary v{.model = "llama"};
  const auto add = [&](const std::string& text, std::int32_t type, float score) {
    v.tokens.push_back(text);
    v.types.push_back(type);
    v.scores.push_back(score);
  };
  add("<unk>", 2, 0);
  add("<s>", 3, 0);
  add("</s>", 3, 0);
  for (int b = 0; b < 256; ++b) add(fmt::format("<0x{:02X}>", b), 6, 0);
  float score = 0;
  for (const char* text : {"▁a", "ab", "abc", "▁", "a", "b", "c", "<", "s", ">", "/"}) {
    add(text, 1, score--);
  }
  return v;
}

TEST(TokenizerGguf, SentencePieceMergesByScore) {
  const auto tokenizer = Open(Write(LlamaVocabulary()));
  EXPECT_EQ(tokenizer->model_kind(), "SentencePiece BPE");
  EXPECT_EQ(tokenizer->Encode("abc"), (Ids{259, 264, 265}));  // ▁a before ab
  EXPECT_EQ(tokenizer->Encode("babc", {.add_special = true}), (Ids{1, 262, 264, 261}));
  EXPECT_EQ(tokenizer->Encode("é"), (Ids{262, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("é abc")), "é abc");
  EXPECT_EQ(tokenizer->Encode("<s>a"), (Ids{1, 259}));
  // "<s>" is in the vocabulary and could be built from its characters: plain text must not.
  EXPECT_EQ(tokenizer->Encode("<s>", {.parse_special = false}), (Ids{262, 266, 267, 268}));
}

// A token with "▁" inside (type: text, score) forbids cutting the text into words.
TEST(TokenizerGguf, SpacesInsideTokensAreHonoured) {
  SmallVocabulary v = LlamaVocabulary();
  v.tokens.push_back("a▁b");
  v.tokens.push_back("a▁");
  for (int i = 0; i < 2; ++i) {
    v.types.push_back(1);
    v.scores.push_back(5);
  }
  const auto tokenizer = Open(Write(v));
  EXPECT_EQ(tokenizer->Encode("a b  a"), (Ids{262, 270, 262, 259}));
}

// Merges as they are listed, spaces as "▁", bytes for what the vocabulary lacks; no space is added.
TEST(TokenizerGguf, Gemma4MergesAsListed) {
  SmallVocabulary v{.model = "gemma4"};
  const auto add = [&](const std::string& text, std::int32_t type) {
    v.tokens.push_back(text);
    v.types.push_back(type);
  };
  add("<pad>", 3);
  add("<eos>", 3);
  add("<bos>", 3);
  for (int b = 0; b < 256; ++b) add(fmt::format("<0x{:02X}>", b), 6);
  for (const char* text : {"a", "b", "c", "▁", "\n", "bc", "ab", "▁a", "\n\n", "▁▁"}) add(text, 1);
  v.merges = {"b c", "a b", "▁ a", "\n \n", "▁ ▁"};
  GgufWriter writer = Write(v);
  writer.U32("tokenizer.ggml.bos_token_id", 2);
  writer.U32("tokenizer.ggml.eos_token_id", 1);
  const auto tokenizer = Open(writer);
  EXPECT_EQ(tokenizer->Encode("abc"), (Ids{259, 264}));  // the first merge before the second
  EXPECT_EQ(tokenizer->Encode("ab ab"), (Ids{265, 262, 265}));
  EXPECT_EQ(tokenizer->Encode("c a"), (Ids{261, 266}));
  EXPECT_EQ(tokenizer->Encode("a\n\n  b", {.add_special = true}), (Ids{2, 259, 267, 268, 260}));
  EXPECT_EQ(tokenizer->Encode("é"), (Ids{3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("é  ab\n\n c")), "é  ab\n\n c");
  EXPECT_EQ(tokenizer->special_tokens().end_ids, Ids{1});
  v.merges.clear();
  EXPECT_NE(ErrorMessage(ErrorKind::kFormat, [&] { Open(Write(v)); }).find("merges"),
            std::string::npos);
}

TEST(TokenizerGguf, ByteLevelUsesTheNamedPattern) {
  SmallVocabulary v{.model = "gpt2"};
  for (const char* text : {"a", "b", "1", "2", "Ġ", "ab", "12", "Ġa", "<|im_end|>"}) {
    v.tokens.push_back(text);
    v.types.push_back(1);
  }
  v.types.back() = 3;
  v.merges = {"a b", "1 2", "Ġ a"};
  GgufWriter smollm = Write(v);
  smollm.String("tokenizer.ggml.pre", "smollm");
  smollm.U32("tokenizer.ggml.eos_token_id", 8);
  smollm.String("tokenizer.chat_template", "{{ x }}");
  const auto tokenizer = Open(smollm);
  EXPECT_EQ(tokenizer->Encode("ab12 a<|im_end|>"), (Ids{5, 2, 3, 7, 8}));  // digits stand alone
  EXPECT_EQ(tokenizer->pre_name(), "smollm");
  EXPECT_EQ(tokenizer->chat_template(), "{{ x }}");
  EXPECT_EQ(tokenizer->special_tokens().end_ids, Ids{8});
  GgufWriter gpt2 = Write(v);
  gpt2.String("tokenizer.ggml.pre", "gpt-2");
  EXPECT_EQ(Open(gpt2)->Encode("ab12"), (Ids{5, 6}));
  GgufWriter unknown = Write(v);
  unknown.String("tokenizer.ggml.pre", "nobody-knows");
  EXPECT_NE(ErrorMessage(ErrorKind::kUnsupported, [&] { Open(unknown); }).find("nobody-knows"),
            std::string::npos);
}

TEST(TokenizerGguf, WordPieceAddsClsAndSep) {
  SmallVocabulary v{.model = "bert"};
  for (const char* text : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁hello", "▁play", "ing", "▁."}) {
    v.tokens.push_back(text);
    v.types.push_back(v.tokens.size() <= 4 ? 3 : 1);
  }
  GgufWriter writer = Write(v);
  writer.U32("tokenizer.ggml.unknown_token_id", 1);
  writer.U32("tokenizer.ggml.cls_token_id", 2);
  writer.U32("tokenizer.ggml.seperator_token_id", 3);
  const auto tokenizer = Open(writer);
  EXPECT_EQ(tokenizer->Encode("Héllo playing.", {.add_special = true}), (Ids{2, 4, 5, 6, 7, 3}));
  EXPECT_EQ(tokenizer->Encode("zzz"), Ids{1});
  EXPECT_EQ(tokenizer->Decode(Ids{4, 5, 6, 7}), "hello playing.");
}

TEST(TokenizerGguf, UnigramTakesTheBestPath) {
  SmallVocabulary v{.model = "t5"};
  v.tokens = {"<pad>", "</s>", "<unk>", "▁", "▁he", "llo", "▁hello", "h", "e", "l", "o"};
  v.types = {3, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  v.scores = {0, 0, 0, -2, -3, -3, -7, -9, -9, -9, -9};
  GgufWriter writer = Write(v);
  writer.Bool("tokenizer.ggml.add_space_prefix", true);
  writer.Bool("tokenizer.ggml.remove_extra_whitespaces", true);
  const auto tokenizer = Open(writer);
  EXPECT_EQ(tokenizer->Encode("  hello  ", {.add_special = true}), (Ids{4, 5, 1}));
  EXPECT_EQ(tokenizer->Encode("xyz"), (Ids{3, 2}));
  EXPECT_EQ(tokenizer->Decode(Ids{4, 5, 4}), "hello he");
}

TEST(TokenizerGguf, DamagedFilesAreRefused) {
  const auto message = [](const GgufWriter& writer, ErrorKind kind = ErrorKind::kFormat) {
    return ErrorMessage(kind, [&] { Open(writer); });
  };
  EXPECT_NE(message(GgufWriter()).find("no tokenizer"), std::string::npos);
  GgufWriter empty;
  empty.String("tokenizer.ggml.model", "llama");
  EXPECT_NE(message(empty).find("no vocabulary"), std::string::npos);
  SmallVocabulary v = LlamaVocabulary();
  v.types.pop_back();
  EXPECT_NE(message(Write(v)).find("token_type"), std::string::npos);
  v = LlamaVocabulary();
  v.scores[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message(Write(v)).find("scores"), std::string::npos);
  v.scores.clear();
  EXPECT_NE(message(Write(v)).find("scores"), std::string::npos);
  v.model = "gpt2";
  EXPECT_NE(message(Write(v)).find("merges"), std::string::npos);
  v.model = "rwkv";
  EXPECT_NE(message(Write(v), ErrorKind::kUnsupported).find("rwkv"), std::string::npos);
}

TEST(TokenizerGguf, KnowsTheFamilies) {
  for (const char* name : {"default", "gpt-2", "llama-bpe", "llama3", "qwen2", "smollm", "tekken",
                           "phi-2", "dbrx", "olmo", "deepseek-llm", "deepseek-v3", "starcoder",
                           "falcon", "gpt-4o", "command-r", "stablelm2"}) {
    ASSERT_NE(FindGgufPreTokenizer(name), nullptr) << name;
  }
  EXPECT_EQ(FindGgufPreTokenizer(""), nullptr);
}

TEST(TokenizerGguf, AgreesWithTheOracles) {
  for (const std::filesystem::path& file : testing_support::OraclesOf("gguf_vocab", ".gguf")) {
    SCOPED_TRACE(file);
    const auto tokenizer = Tokenizer::Load(file);
    std::string texts = ReadTextFile(file.string() + ".inp", 1 << 24);
    std::istringstream lines(ReadTextFile(file.string() + ".out", 1 << 24));
    const std::string separator = "\n__ggml_vocab_test__\n";
    for (std::string line; std::getline(lines, line);) {
      const size_t end = texts.find(separator);
      const std::string text = texts.substr(0, end);
      texts = end == std::string::npos ? std::string() : texts.substr(end + separator.size());
      std::istringstream numbers(line);
      Ids want;
      for (TokenId id; numbers >> id;) want.push_back(id);
      EXPECT_EQ(tokenizer->Encode(text), want) << text;
    }
  }
}

TEST(TokenizerGguf, KnowsWhichTokensAreNotOfTheText) {
  SmallVocabulary v = LlamaVocabulary();
  const auto first = static_cast<TokenId>(v.tokens.size());
  v.tokens.insert(v.tokens.end(), {"[PAD7]", "<added>", "plain"});
  v.types.insert(v.types.end(), {5, 4, 1});
  v.scores.insert(v.scores.end(), {0, 0, 0});
  const auto tokenizer = Open(Write(v));
  EXPECT_TRUE(tokenizer->IsAdded(0));
  EXPECT_TRUE(tokenizer->IsAdded(first));
  EXPECT_TRUE(tokenizer->IsAdded(first + 1));
  EXPECT_FALSE(tokenizer->IsAdded(first + 2));
  EXPECT_FALSE(tokenizer->IsAdded(3));  // a byte
  EXPECT_FALSE(tokenizer->IsAdded(-1));
}

}  // namespace

}  // namespace banyan
