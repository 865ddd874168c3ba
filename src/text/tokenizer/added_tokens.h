// Tokens that are recognised in the text before any model sees it: control tokens and whatever else
// a model's authors added to the vocabulary afterwards.
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
  bool lstrip = false;       // takes the spaces on its left
  bool rstrip = false;       // takes the spaces on its right
  bool normalized = false;   // looked for in the normalised text rather than in the original
  bool special = false;      // a control token: left out by skip_special

  // Plain text never makes it: special, or spelled like markup (<think>, [INST]). Markup that a
  // file forgot to call special would let a document forge the structure of a prompt; an added word
  // or run of spaces is ordinary text.
  bool IsControl() const;
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // `contents[i]` is what `tokens[i]` looks like in the text; empty ones are not looked for.
  // Throws kLimit, naming `what`, when one is longer than 1 KiB.
  AddedTokenMatcher(std::vector<AddedToken> tokens, std::vector<std::string> contents,
                    const std::string& what);

  bool empty() const { return trie_.empty(); }
  // Whether a text's added tokens are those of its two parts wherever it is cut between a letter
  // and a space with a letter after it.
  bool AllowsCutsBeforeWords() const { return allows_cuts_; }

  struct Fragment {
    TextRange range;
    TokenId id = -1;  // -1: ordinary text
  };
  // Cuts `text` at the added tokens: leftmost first, then longest. Control tokens that touch one of
  // the `plain` ranges (ascending, disjoint) stay text.
  void Split(std::string_view text, std::span<const TextRange> plain,
             std::vector<Fragment>& out) const;
  // The same with all of the text plain, or none of it.
  void Split(std::string_view text, bool with_control, std::vector<Fragment>& out) const;

 private:
  std::vector<AddedToken> tokens_;
  std::array<bool, 256> first_bytes_{};  // some content begins with it
  bool allows_cuts_ = true;
  ByteTrie trie_;  // content → index in tokens_
};

}  // namespace banyan
