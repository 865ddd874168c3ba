// The splitting patterns of known byte-level tokenizers: by their name in GGUF files, and as
// hand-written splitters, several times as fast as PCRE2 with equal results
// (split_patterns_test.cc). PCRE2 runs all other patterns.
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

// Steps of a pre-tokenizer whose effect is known.
enum class KnownStep {
  kUnknown,
  kNumbersAlone,   // cuts around every \p{N}
  kNumericsAlone,  // cuts around every character that is numeric (IsNumeric)
  kGpt2,           // cuts by the pattern of GPT-2, …
  kLlama3,         // … of Llama 3, …
  kQwen2,          // … of Qwen 2
  kOtherWords,     // cuts by another pattern that allows cuts before words (see below)
  kByteLevel,      // respells bytes, splits nothing
  kGpt2ByteLevel,  // kGpt2, then kByteLevel
  // Every space becomes "▁"; a "▁" is added only before pieces that begin with neither, or at the
  // start of the input. No splits …
  kMetaspace,
  kMetaspaceWords,  // … or one before every "▁"
  kMetaspaceCuts,   // cuts before every "▁" that follows another character
};

// The step that cuts around every match of `pattern`.
KnownStep KnownPattern(std::string_view pattern);

// Whether a text may be cut at any space between two letters (IsCutBeforeWord) without changing its
// words.
bool AllowsCutsBeforeWords(std::span<const KnownStep> chain);

// Splits a text into words as a chain of steps does, before its bytes are respelled.
class WordSplitter {
 public:
  // nullopt unless the chain is: numbers alone (optional), one known pattern, byte-level.
  static std::optional<WordSplitter> For(std::span<const KnownStep> chain);

  // Calls visit(word) from left to right; the words partition the text. REQUIRES: text is
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
      // A character that is a word of its own ends the text for the words before it.
      const char* const run_end = alone_ == 0 ? end : FindAlone(at, end);
      while (at < run_end) take(EndOfWord(at, run_end));
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

// GGUF only names a pre-tokenizer (tokenizer.ggml.pre).
struct GgufPreTokenizer {
  std::vector<const char*> patterns;  // applied one after another; matches and gaps are all pieces
  bool ignore_merges = false;         // a piece that is itself a token stays whole
  bool add_bos = false;               // unless tokenizer.ggml.add_bos_token says otherwise
  bool nfc = false;                   // the original tokenizer normalises to NFC
};

// Null for a name that is not in the table.
const GgufPreTokenizer* FindGgufPreTokenizer(std::string_view name);

}  // namespace banyan
