// BERT's WordPiece: the longest token that fits, again and again; a word that cannot be covered is
// one unknown token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/token_model.h"

namespace banyan {

struct WordPieceOptions {
  TokenId unk = 0;
  std::string first_prefix;              // spelling of a word's start: "" or "▁" (GGUF)
  std::string continuing_prefix = "##";  // and of what follows: "##" or "" (GGUF)
  size_t max_characters = 100;           // longer words are unknown
};

class WordPieceModel : public TokenModel {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options);
  void Encode(std::string_view piece, const TokenSet* forbidden,
              std::vector<TokenId>& out) const override;

 private:
  WordPieceOptions options_;
  size_t longest_token_ = 0;  // bytes
};

}  // namespace banyan
