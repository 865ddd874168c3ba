// Tokens that are recognised in the text before the model sees it: control tokens and others that
// were added to the trained vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"
#include "text/regex.h"
#include "text/tokenizer/vocabulary.h"

namespace banyan {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // absorbs the spaces on its left
  bool rstrip = false;       // absorbs the spaces on its right
  bool normalized = false;   // matched in the normalised text rather than in the original
  bool special = false;      // a control token: omitted by skip_special

  // Whether plain text must never produce it: special, or spelled like markup (<think>, [INST]).
  // Otherwise a document could forge the structure of a prompt where a file does not mark its
  // markup as special. An added word or run of spaces is ordinary text.
  bool IsControl() const;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // `contents[i]` is the spelling of `tokens[i]` in the text; empty ones never match.
  // Throws kLimit, naming `what`, when one is longer than 1 KiB.
  AddedTokenMatcher(std::vector<AddedToken> tokens, std::vector<std::string> contents,
                    const std::string& what);

  bool empty() const { return trie_.empty(); }
  // Whether a text may be cut at any space between two letters (IsCutBeforeWord) without changing
  // its added tokens.
  bool AllowsCutsBeforeWords() const { return allows_cuts_; }

  struct Fragment {
    TextRange range;
    TokenId id = -1;  // -1: ordinary text
  };
  // Splits `text` at the added tokens: leftmost first, then longest. Control tokens that touch one
  // of the `plain` ranges (ascending, disjoint) stay text.
  void Split(std::string_view text, std::span<const TextRange> plain,
             std::vector<Fragment>& out) const;
  // The same with all of the text plain, or none of it.
  void Split(std::string_view text, bool with_control, std::vector<Fragment>& out) const;

 private:
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_bytes_{};  // first bytes of the contents
  bool allows_cuts_ = true;
  ByteTrie trie_;  // content → index in tokens_
};

}  // namespace banyan
