// Byte-pair encoding by ranked merges. Byte-level BPE (GPT-2) and SentencePiece BPE (Llama 2) are
// the same algorithm: they differ in the pre-tokenizer's pieces and in byte fallback.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/token_model.h"

namespace banyan {

// (left, right) → the merged token and its rank. Lower ranks merge first.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = kNone;
    TokenId id = -1;
  };
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;

  explicit MergeTable(size_t expected);
  void Set(TokenId left, TokenId right, Merge merge);  // replaces an earlier one
  Merge Find(TokenId left, TokenId right) const;       // rank kNone when there is none
  template <typename Visit>
  void ForEachResult(Visit visit) const {  // visit(id of a merged token), in no order
    for (const Slot& slot : slots_) {
      if (slot.pair != kFree) visit(slot.merge.id);
    }
  }

 private:
  struct Slot {
    std::uint64_t pair = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};
  size_t SlotFor(std::uint64_t pair) const;
  void Grow();

  std::vector<Slot> slots_;
  int shift_ = 0;
  size_t used_ = 0;
};

struct BpeOptions {
  std::optional<TokenId> unk;     // none: a character without token is dropped
  bool fuse_unk = false;          // neighbouring unknown characters make one unknown token
  bool byte_fallback = false;     // try <0xNN> tokens before the unknown one
  bool ignore_merges = false;     // a pre-token that is itself a token stays whole
  std::string continuing_prefix;  // put before every character but the first ("##")
  std::string word_suffix;        // put after the last ("</w>")
};

class BpeModel : public TokenModel {
 public:
  BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options);
  void Encode(std::string_view piece, const TokenSet* forbidden,
              std::vector<TokenId>& out) const override;

  // Whether a piece may be cut before every "▁" that follows another character without changing any
  // id: true when "▁" is a token and no merge makes a token with a "▁" in such a place. Models
  // without pre-tokenizer get a whole text as one piece; this splits it into words.
  bool CanCutAtMetaspace() const;

 private:
  struct Symbol;
  std::string Spell(std::string_view piece, size_t begin, size_t length) const;
  void AppendCharacters(std::string_view piece, const TokenSet* forbidden,
                        std::vector<TokenId>& symbols) const;
  void MergeShort(std::vector<TokenId>& symbols, const TokenSet* forbidden) const;
  void MergeLong(std::vector<TokenId>& symbols, const TokenSet* forbidden) const;
  MergeTable::Merge FindMerge(TokenId left, TokenId right, const TokenSet* forbidden) const;

  MergeTable merges_;
  BpeOptions options_;
  std::vector<TokenId> byte_tokens_;    // [256]
  bool has_affixes_ = false;            // a prefix or a suffix is set
  std::vector<TokenId> character_ids_;  // for codes below its size; -1 = not a token
};

// The merges that SentencePiece's BPE implies: every way to write a token as two tokens, ranked by
// score, higher first; equal scores share a rank, so that the leftmost pair merges first.
MergeTable MergesFromScores(const Vocabulary& vocabulary, const std::vector<float>& scores,
                            const TokenSet& excluded);

}  // namespace banyan
