// The splitting patterns of the best-known byte-level tokenizers, run by hand: several times as
// fast as PCRE2 and equal to it (word_splitter_test.cc). Every other pattern is left to PCRE2.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace banyan {

// As the models' own tokenizer.json files state them.
inline constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// What a step of a pre-tokenizer is known to do.
enum class KnownStep {
  kUnknown,
  kNumbersAlone,   // cuts around every \p{N}
  kNumericsAlone,  // cuts around every character that is numeric (IsNumeric)
  kGpt2,           // cuts by the pattern of GPT-2, …
  kLlama3,         // … of Llama 3, …
  kQwen2,          // … of Qwen 2
  kOtherWords,     // cuts by another pattern that allows cuts before words (see below)
  kByteLevel,      // respells bytes and cuts nothing
  kGpt2ByteLevel,  // kGpt2, then kByteLevel
  // Every space becomes "▁", and more "▁" stand only before pieces that begin with neither, or at
  // the input's start. There are no cuts …
  kMetaspace,
  kMetaspaceWords,  // … or one before every "▁".
  kMetaspaceCuts,   // cuts before every "▁" that follows another character
};

// The step that cuts around every match of `pattern`.
KnownStep KnownPattern(std::string_view pattern);

// Whether a text's words are those of its two parts wherever it is cut between a letter and a space
// with a letter after it.
bool AllowsCutsBeforeWords(std::span<const KnownStep> chain);

// Cuts a text into words as a chain of steps does, before its bytes are respelled.
class WordSplitter {
 public:
  // Nothing when the chain is more than numbers alone (or not), one pattern, byte-level.
  static std::optional<WordSplitter> For(std::span<const KnownStep> chain);

  // visit(word) of each, from left to right; together they are the text. REQUIRES: text is
  // well-formed UTF-8.
  template <typename Visit>
  void ForEachWord(std::string_view text, Visit visit) const {
    const char* at = text.data();
    const char* const end = at + text.size();
    const auto take = [&](const char* word_end) {
      visit(std::string_view(at, static_cast<size_t>(word_end - at)));
      at = word_end;
    };
    while (at < end) {
      // A character that stands alone ends the text for the words before it.
      const char* const stretch_end = alone_ == 0 ? end : FindAlone(at, end);
      while (at < stretch_end) take(EndOfWord(at, stretch_end));
      if (at < end) take(at + ClassifyUtf8(at).length);
    }
  }

 private:
  WordSplitter(KnownStep pattern, CharacterClass alone) : pattern_(pattern), alone_(alone) {}
  const char* FindAlone(const char* at, const char* end) const;
  const char* EndOfWord(const char* at, const char* end) const;

  KnownStep pattern_;
  CharacterClass alone_;  // characters of these classes are words of their own
};

// GGUF names a pre-tokenizer (tokenizer.ggml.pre) without saying what it does. This table does.

struct GgufPreTokenizer {
  std::vector<const char*> patterns;  // applied one after another; matches and gaps are all pieces
  bool ignore_merges = false;         // a piece that is itself a token is not taken apart
  bool add_bos = false;               // unless tokenizer.ggml.add_bos_token says otherwise
  bool nfc = false;                   // the original tokenizer normalises to NFC
};

// Null for a name that is not in the table.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);

}  // namespace banyan
