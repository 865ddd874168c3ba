// Prompts in pieces: what a template wrote is structure, what a user wrote is text.
#include <gtest/gtest.h>
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/work_budget.h"
#include "support/counted_memory.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode.h"

namespace banyan {

namespace {

using testing_support::CountedMemory;
using Ids = std::vector<TokenId>;
using Piece = Tokenizer::Piece;

const std::filesystem::path kTokenizerFixtures =
    std::filesystem::path(BANYAN_SOURCE_DIR) / "tests/data/tokenizers";

class EncodePieces : public ::testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ =
      Tokenizer::Load(kTokenizerFixtures / (std::string(GetParam()) + ".json"));

  Ids Encode(const std::vector<Piece>& pieces) const { return tokenizer_->EncodePieces(pieces); }

  // The spelling of some control token.
  std::string Control() const {
    for (TokenId id = 0; id < static_cast<TokenId>(tokenizer_->vocab_size()); ++id) {
      if (tokenizer_->IsSpecial(id)) return std::string(tokenizer_->TokenText(id));
    }
    return "";
  }
  TokenId ControlId() const { return *tokenizer_->Find(Control()); }
};

TEST_P(EncodePieces, WithoutControlTokensPiecesAreOneText) {
  const std::string text = "Hello, world. 123 and so on\n\nNew line";
  const Ids whole = tokenizer_->Encode(text, {.parse_special = false});
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const std::string a = text.substr(0, cut), b = text.substr(cut);
    EXPECT_EQ(Encode({{a, true}, {b, true}}), whole) << cut;
    EXPECT_EQ(Encode({{a, false}, {b, true}}), whole) << cut;
    EXPECT_EQ(Encode({{a, true}, {b, false}}), whole) << cut;
  }
}

TEST_P(EncodePieces, ControlTokensOnlyWhereTheTemplateWroteThem) {
  const std::string control = Control();
  ASSERT_FALSE(control.empty());
  const auto count = [&](const Ids& ids) {
    return std::count(ids.begin(), ids.end(), ControlId());
  };
  EXPECT_EQ(count(Encode({{control, false}})), 1);
  EXPECT_EQ(count(Encode({{control, true}})), 0);
  EXPECT_EQ(count(Encode({{control, false}, {"a " + control + " b", true}, {control, false}})), 2);
  // Half from the template and half from a user is no control token either.
  for (size_t cut = 1; cut < control.size(); ++cut) {
    const std::string a = control.substr(0, cut), b = control.substr(cut);
    EXPECT_EQ(count(Encode({{a, true}, {b, false}})), 0) << cut;
    EXPECT_EQ(count(Encode({{a, false}, {b, true}})), 0) << cut;
    EXPECT_EQ(count(Encode({{a, false}, {b, false}})), 1) << cut;  // one origin: one text
  }
}

// A hundred thousand messages took minutes and could not be cancelled.
TEST_P(EncodePieces, ManyPiecesHeedTheBudget) {
  const std::string control = Control();
  if (control.empty()) return;  // all of them are one text, whose words are counted
  std::vector<Piece> pieces;
  for (int i = 0; i < 2'000; ++i) {
    pieces.push_back({control, false});
    pieces.push_back({"a", true});
  }
  EXPECT_GE(Encode(pieces).size(), 4'000u);
  WorkBudget budget;
  budget.unwanted = [] { return true; };
  const BudgetScope scope(budget);
  EXPECT_THROW(Encode(pieces), WorkStopped);
}

// A text of 20 MB that is one word took 460 MB.
TEST_P(EncodePieces, MemoryOfALongWordIsCounted) {
  const std::string word(1 << 17, 'a');
  CountedMemory memory;
  WorkBudget budget;
  budget.memory = &memory;
  const BudgetScope scope(budget);
  Encode({{"short words are not", true}});
  EXPECT_EQ(memory.taken, 0);
  Encode({{word, true}});
  EXPECT_GE(memory.taken, static_cast<std::int64_t>(20 * word.size()));
}

TEST_P(EncodePieces, EmptyAndBrokenPieces) {
  EXPECT_TRUE(Encode({}).empty());
  EXPECT_EQ(Encode({{"", true}, {"", false}}), tokenizer_->Encode(""));
  EXPECT_NO_THROW(Encode({{"\xff\xfe", true}, {"\xc3", false}, {"\xa9", true}}));
}

// A prompt that is cut inside a user's piece: its tokens are those of its two parts.
void CheckRest(const Tokenizer& tokenizer, const std::string& control) {
  ASSERT_TRUE(tokenizer.AllowsCutsBeforeWords());
  const std::string text = " one two  three \u00e9t\u00e9 \u0434\u0430 <s> it's 12 of\nthe " +
                           control + " end \u2581 of the text x";
  size_t cuts = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!IsCutBeforeWord(text, at)) continue;
    ++cuts;
    for (const std::string& before : {std::string(), "Read. " + control}) {
      const std::vector<Piece> whole = {
          {before, false}, {text, true}, {control, false}, {"again and so on", false}};
      std::vector<Piece> first(whole.begin(), whole.begin() + 2),
          rest(whole.begin() + 1, whole.end());
      first[1].text = std::string_view(text).substr(0, at);
      rest[0].text = std::string_view(text).substr(at);
      Ids joined = tokenizer.EncodePieces(first);
      const Ids more = tokenizer.EncodeRest(rest);
      joined.insert(joined.end(), more.begin(), more.end());
      EXPECT_EQ(joined, tokenizer.EncodePieces(whole)) << at;
    }
  }
  EXPECT_GE(cuts, 5u);
}

TEST_P(EncodePieces, TheRestOfACutTextContinuesIt) {
  const std::string name = GetParam();
  if (name == "wordpiece" || name == "unigram") {  // of a normaliser that may do anything
    EXPECT_FALSE(tokenizer_->AllowsCutsBeforeWords());
  } else {
    CheckRest(*tokenizer_, Control());
  }
}

TEST(CutsBeforeWords, WithMetaspacesAsPreTokenizer) {
  for (const char* name : {"sentencepiece_bpe", "unigram"}) {
    for (const char* scheme : {"always", "first", "never"}) {
      for (const bool split : {true, false}) {
        SCOPED_TRACE(testing::Message() << name << ", " << scheme << ", " << split);
        const std::string file = (kTokenizerFixtures / (std::string(name) + ".json")).string();
        Json json = ParseJson(ReadTextFile(file, 1 << 20), file);
        json["normalizer"] = {{"type", "NFKC"}};
        json["pre_tokenizer"] = {{"type", "Metaspace"},
                                 {"replacement", "\u2581"},
                                 {"prepend_scheme", scheme},
                                 {"split", split}};
        const auto tokenizer = Tokenizer::FromHuggingFaceText(json.dump(), "", "test");
        if (split || std::string_view(name) == "sentencepiece_bpe") {
          CheckRest(*tokenizer, "</s>");
        } else {  // a whole text is one piece
          EXPECT_FALSE(tokenizer->AllowsCutsBeforeWords());
        }
      }
    }
  }
}

// An added token that may stand across a cut forbids cutting.
TEST(CutsBeforeWords, DependOnTheAddedTokens) {
  const std::string file = (kTokenizerFixtures / "byte_level_bpe.json").string();
  const auto allows = [&](const Json& token) {
    Json json = ParseJson(ReadTextFile(file, 1 << 20), file);
    json["added_tokens"].push_back(token);
    return Tokenizer::FromHuggingFaceText(json.dump(), "", "test")->AllowsCutsBeforeWords();
  };
  const auto token = [](const char* content) {
    return Json{{"id", 281}, {"content", content}, {"special", true}};
  };
  EXPECT_TRUE(allows(token("<|end|>")));
  EXPECT_TRUE(allows(token(" New")));
  EXPECT_TRUE(allows(token("1 2")));
  EXPECT_FALSE(allows(token("New York")));
  EXPECT_FALSE(allows(token("New ")));
  EXPECT_FALSE(allows(token("\u00e9 x")));
  Json stripping = token("end");
  EXPECT_TRUE(allows(stripping));
  stripping["rstrip"] = true;
  EXPECT_FALSE(allows(stripping));
  stripping = token("<end");
  stripping["lstrip"] = true;
  EXPECT_TRUE(allows(stripping));
  stripping["rstrip"] = true;
  EXPECT_FALSE(allows(stripping));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EncodePieces,
                         ::testing::Values("byte_level_bpe", "sentencepiece_bpe", "unigram",
                                           "wordpiece"));

}  // namespace

}  // namespace banyan
