// SentencePiece's unigram model: the segmentation with the highest sum of scores (Viterbi).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "text/token_model.h"
#include "text/trie.h"

namespace banyan {

struct UnigramOptions {
  std::optional<TokenId> unk;
  bool byte_fallback = false;
};

class UnigramModel : public TokenModel {
 public:
  // scores[id] is a log probability; ids in `unmatched` stay in the vocabulary but match no text.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options,
               const TokenSet& unmatched);
  // Throws kInput for a character without token when there is no unknown token either.
  void Encode(std::string_view piece, const TokenSet* forbidden,
              std::vector<TokenId>& out) const override;

 private:
  ByteTrie trie_;
  std::vector<double> scores_;
  UnigramOptions options_;
  double unk_score_ = 0;
  std::vector<TokenId> byte_tokens_;  // [256]
};

}  // namespace banyan
