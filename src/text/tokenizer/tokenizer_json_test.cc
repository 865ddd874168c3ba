// Damaged and hostile tokenizer.json: an error that names the file and the key, nothing worse.
#include <gtest/gtest.h>
#include <filesystem>

#include "banyan/error.h"
#include "base/files.h"
#include "base/json.h"
#include "support/error_message.h"
#include "text/tokenizer/tokenizer.h"

namespace banyan {

namespace {

using testing_support::ErrorMessage;
using Ids = std::vector<TokenId>;

Json Fixture(const std::string& name) {
  const auto file =
      std::filesystem::path(BANYAN_SOURCE_DIR) / "tests/data/tokenizers" / (name + ".json");
  return ParseJson(ReadTextFile(file, 1 << 20), file.string());
}

std::shared_ptr<const Tokenizer> Load(const Json& json) {
  return Tokenizer::FromHuggingFaceText(json.dump(), "", "FILE");
}

// Sets the value at `pointer` of a good file and expects an error with both words in it.
void ExpectRefused(const std::string& fixture, const std::string& pointer, const Json& value,
                   const std::string& word, ErrorKind kind = ErrorKind::kFormat) {
  Json json = Fixture(fixture);
  json[Json::json_pointer(pointer)] = value;
  const std::string message = ErrorMessage(kind, [&] { Load(json); });
  EXPECT_NE(message.find("FILE"), std::string::npos) << message;
  EXPECT_NE(message.find(word), std::string::npos) << pointer << ": " << message;
}

TEST(TokenizerJson, NamesTheKeyThatIsWrong) {
  ExpectRefused("byte_level_bpe", "/model", nullptr, "model: missing");
  ExpectRefused("byte_level_bpe", "/model", 3, "model");
  ExpectRefused("byte_level_bpe", "/model/vocab", nullptr, "model.vocab: missing");
  ExpectRefused("byte_level_bpe", "/model/vocab", Json::array({1}), "model.vocab");
  ExpectRefused("byte_level_bpe", "/model/vocab", Json::object(), "model.vocab");
  ExpectRefused("byte_level_bpe", "/model/vocab/a", "x", "model.vocab");
  ExpectRefused("byte_level_bpe", "/model/vocab/a", -1, "id -1");
  ExpectRefused("byte_level_bpe", "/model/vocab/a", 4000000000, "4000000000");
  ExpectRefused("byte_level_bpe", "/model/merges", "x", "model.merges");
  ExpectRefused("byte_level_bpe", "/model/merges/0", "abc", "model.merges[0]");
  ExpectRefused("byte_level_bpe", "/model/merges/1", Json::array({"a"}), "model.merges[1]");
  ExpectRefused("byte_level_bpe", "/model/merges/2", "zz y", "'zz'");
  ExpectRefused("byte_level_bpe", "/model/fuse_unk", "yes", "model.fuse_unk");
  ExpectRefused("byte_level_bpe", "/added_tokens/0/id", 99999999999, "added_tokens[0].id");
  ExpectRefused("byte_level_bpe", "/added_tokens/0/content", 7, "added_tokens[0].content");
  ExpectRefused("byte_level_bpe", "/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a", "Regex");
  ExpectRefused("byte_level_bpe", "/post_processor/single", 1, "post_processor.single");
  ExpectRefused("byte_level_bpe", "/post_processor/special_tokens/<|im_start|>/ids/0", 100000,
                "post_processor");
  ExpectRefused("unigram", "/model/vocab/2", Json::array({"x"}), "model.vocab[2]");
  ExpectRefused("unigram", "/model/unk_id", 1000, "model.unk_id");
  ExpectRefused("wordpiece", "/model/unk_token", "[NOPE]", "unk_token");
}

TEST(TokenizerJson, NamesWhatIsNotSupported) {
  const auto unsupported = [](const std::string& pointer, const std::string& word) {
    ExpectRefused("byte_level_bpe", pointer, word, word, ErrorKind::kUnsupported);
  };
  unsupported("/model/type", "WordLevel");
  unsupported("/normalizer/type", "Frobnicate");
  unsupported("/pre_tokenizer/pretokenizers/0/type", "UnicodeScripts");
  unsupported("/pre_tokenizer/pretokenizers/0/behavior", "Doubled");
  unsupported("/decoder/type", "CTC");
  unsupported("/post_processor/type", "Other");
}

TEST(TokenizerJson, BoundsWhatAFileCanAskFor) {
  Json deep = {{"type", "NFC"}};
  for (int i = 0; i < 40; ++i) deep = {{"type", "Sequence"}, {"normalizers", Json::array({deep})}};
  ExpectRefused("unigram", "/normalizer", deep, "nest");
  // Replacements that multiply the text are stopped, not obeyed.
  Json grow = Json::array();
  for (int i = 0; i < 6; ++i) {
    grow.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(60, 'a')}});
  }
  Json json = Fixture("unigram");
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", grow}};
  const auto tokenizer = Load(json);
  EXPECT_THROW((void)tokenizer->Encode("aaaa"), Error);
  // So is a pattern that backtracks without end.
  json = Fixture("byte_level_bpe");
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(a+)+$|(x+x+)+y";
  EXPECT_THROW((void)Load(json)->Encode(std::string(64, 'x')), Error);
  json["added_tokens"][0]["content"] = std::string(2000, 'x');
  EXPECT_EQ(ErrorMessage(ErrorKind::kLimit, [&] { Load(json); }).rfind("FILE", 0), 0u);
}

TEST(TokenizerJson, MergesThatTurnInCirclesEnd) {
  Json json = Fixture("byte_level_bpe");
  json["model"]["vocab"]["aa"] = json["model"]["vocab"]["a"];  // two spellings of one id
  EXPECT_FALSE(Load(json)->Encode(std::string(5000, 'a')).empty());
}

TEST(TokenizerJson, IgnoreMergesKeepsWholeTokens) {
  Json json = Fixture("byte_level_bpe");
  json["model"]["vocab"]["xyz"] = 900;
  EXPECT_EQ(Load(json)->Encode("xyz").size(), 3u);
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(Load(json)->Encode("xyz"), Ids{900});
}

TEST(TokenizerJson, TruncatedTextIsAnError) {
  const std::string whole = Fixture("wordpiece").dump();
  for (size_t length = 0; length < whole.size(); length += 37) {
    EXPECT_THROW(Tokenizer::FromHuggingFaceText(whole.substr(0, length), "", "FILE"), Error);
  }
}

}  // namespace

}  // namespace banyan
