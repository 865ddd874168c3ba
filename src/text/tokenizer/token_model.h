// The middle of the pipeline: one pre-token → ids. Each model owns the vocabulary it was trained
// with; tokens that were added later (added_tokens.h) are not in it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/types.h"
#include "text/tokenizer/vocabulary.h"

namespace banyan {

// A set of ids.
class TokenSet {
 public:
  void Insert(TokenId id) {
    if (id < 0) return;
    if (static_cast<size_t>(id) >= bits_.size()) bits_.resize(static_cast<size_t>(id) + 1, false);
    bits_[static_cast<size_t>(id)] = true;
  }
  bool Contains(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < bits_.size() && bits_[static_cast<size_t>(id)];
  }

 private:
  std::vector<bool> bits_;
};

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

// "<0x0A>" → 10; -1 for any other spelling.
int ParseByteToken(std::string_view token);
// Id of "<0x00>" … "<0xFF>", -1 where the vocabulary has none.
std::vector<TokenId> FindByteTokens(const Vocabulary& vocabulary);

// SentencePiece's unigram model: the segmentation with the highest sum of scores (Viterbi).

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

// BERT's WordPiece: the longest token that fits, again and again; a word that cannot be covered is
// one unknown token.

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
