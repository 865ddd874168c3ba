// Prompts in pieces: what a template wrote is structure, what a user wrote is text.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace banyan {
namespace {

using Ids = std::vector<TokenId>;
using Piece = Tokenizer::Piece;

const std::filesystem::path kFixtures =
    std::filesystem::path(BANYAN_SOURCE_DIR) / "tests/data/tokenizers";

class EncodePieces : public ::testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<const Tokenizer> tokenizer_ =
      Tokenizer::Load(kFixtures / (std::string(GetParam()) + ".json"));

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

TEST_P(EncodePieces, EmptyAndBrokenPieces) {
  EXPECT_TRUE(Encode({}).empty());
  EXPECT_EQ(Encode({{"", true}, {"", false}}), tokenizer_->Encode(""));
  EXPECT_NO_THROW(Encode({{"\xff\xfe", true}, {"\xc3", false}, {"\xa9", true}}));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, EncodePieces,
                         ::testing::Values("byte_level_bpe", "sentencepiece_bpe", "unigram",
                                           "wordpiece"));

}  // namespace
}  // namespace banyan
