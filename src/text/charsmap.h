// SentencePiece's precompiled normalisation table: a double-array trie of byte strings, each with a
// replacement text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

class Charsmap {
 public:
  // `blob` as in sentencepiece's model file: uint32 size of the trie, trie, texts ending in NUL.
  // Throws kFormat, naming `what`, when the sizes do not fit.
  Charsmap(std::string_view blob, const std::string& what);

  struct Match {
    size_t length;  // bytes of the key
    std::string_view replacement;
  };
  // The shortest or the longest key that `text` begins with.
  std::optional<Match> FindShortest(std::string_view text) const { return Find(text, false); }
  std::optional<Match> FindLongest(std::string_view text) const { return Find(text, true); }

 private:
  std::optional<Match> Find(std::string_view text, bool longest) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

// Throws kFormat, naming `what`.
std::string DecodeBase64(std::string_view text, const std::string& what);

}  // namespace banyan
