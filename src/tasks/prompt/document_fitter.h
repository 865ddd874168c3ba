// Documents that are too long for the model's context: where a text may be cut, how much of one
// document fits a prompt, and parts of it that each do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace banyan {

// The best place to end a part at or before `end`, looking back at most `back` bytes: after a
// paragraph, else a line, else a sentence, else a word, else between characters. The text's end is
// one.
size_t CutPlace(std::string_view text, size_t end, size_t back);

// The best place to begin a passage, from `begin` on and before `most`: after a paragraph, a line,
// a sentence or a word; `begin` itself, moved to a character, when there is none.
size_t BeginPlace(std::string_view text, size_t begin, size_t most);

// The longest prefix of at most so many bytes that ends between characters.
std::string_view PrefixOf(std::string_view text, size_t bytes);

// Cuts one document so that a prompt with it fits. Only the tokenizer knows how many tokens a text
// has, so every length is approached from a guess. Parts are taken one after another, either all by
// NextOverlapping or all by NextAdjacent.
class DocumentFitter {
 public:
  // Tokens that the prompt needs with this text as its document, its answer included.
  using Measure = std::function<std::int64_t(std::string_view text)>;
  static constexpr size_t kMostParts = 10'000;

  // `window`: tokens that the prompt may need; `without`: measure("").
  DocumentFitter(std::string_view document, std::int64_t window, std::int64_t without,
                 Measure measure);

  // The longest prefix of the document that fits, ended after a word. Nothing: none does.
  std::optional<std::string_view> Truncated() const { return LongestPrefix(document_); }

  // No part is left.
  bool done() const { return begin_ >= document_.size(); }
  // Parts that overlap by a tenth or more, so that what stands across a cut is whole in one of
  // them. A part ends with a paragraph where one ends in its last quarter. Nothing: no text fits.
  std::optional<std::string_view> NextOverlapping();
  // Parts without overlap. A part ends with a paragraph, else a line, a sentence or a word, where
  // one ends in its second half; it is the text that was measured last. Nothing: no text fits.
  std::optional<std::string_view> NextAdjacent();

 private:
  std::optional<std::string_view> LongestPrefix(std::string_view text) const;

  std::string_view document_;
  std::int64_t window_, without_;
  Measure measure_;
  size_t begin_ = 0;              // of the next part, in bytes
  double bytes_per_token_ = 4.0;  // of the parts before
};

// Cuts the longest of several documents of one prompt until the prompt fits. `room`: tokens that
// the prompt may have; `prompt_tokens` measures it with the documents as they are. False: it does
// not fit without any text either.
bool CutLongest(std::vector<std::string_view>& documents, std::int64_t room,
                const std::function<std::int64_t()>& prompt_tokens);

// How many of a document's tokens fit when the prompt with all of them needs `needed` tokens. Less
// than 1 where none does.
std::int64_t FittingTokens(std::int64_t document_tokens, std::int64_t needed, std::int64_t window);

}  // namespace banyan
