// The models of the pipeline: one pre-token → ids. Each owns the vocabulary it was trained with;
// tokens that were added later (added_tokens.h) are not in it. BPE has its own file, bpe_model.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/types.h"
#include "text/tokenizer/vocabulary.h"

namespace banyan {

// Immutable and safe to use from many threads at once.
class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  TokenModel(const TokenModel&) = delete;
  TokenModel& operator=(const TokenModel&) = delete;

  // Appends the ids of `piece`. No id of `forbidden` is matched (an unknown token may still be
  // produced, whatever its id). REQUIRES: piece is well-formed UTF-8.
  virtual void Encode(std::string_view piece, const TokenSet* forbidden,
                      std::vector<TokenId>& out) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

struct UnigramOptions {
  std::optional<TokenId> unk;
  bool byte_fallback = false;
};

// SentencePiece's unigram model: the segmentation with the highest sum of scores (Viterbi).
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

struct WordPieceOptions {
  TokenId unk = 0;
  std::string continuing_prefix = "##";  // of every piece of a word but the first
  size_t max_characters = 100;           // longer words are unknown
};

// BERT's WordPiece: repeatedly takes the longest token that fits. A word that cannot be covered is
// one unknown token.
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
