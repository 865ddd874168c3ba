// A length in tokens is approached from a guess: the text's bytes per token so far.
#include "tasks/prompt/document_fitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/characters.h"

namespace banyan {
namespace {

constexpr size_t kWordBytes = 200;  // a truncated text ends with a word if one ends so close
// Other questions over the same part may meet its end with a token more.
constexpr std::int64_t kSpareTokens = 4;

// How good a cut before byte `at` is; 0: none. REQUIRES: 0 < at < text.size().
int QualityOf(std::string_view text, size_t at) {
  const char before = text[at - 1];
  if (before == '\n') {
    // A line that is empty, but for spaces, ends a paragraph.
    size_t line = at - 1;
    while (line > 0 &&
           (text[line - 1] == ' ' || text[line - 1] == '\t' || text[line - 1] == '\r')) {
      --line;
    }
    return line > 0 && text[line - 1] == '\n' ? 4 : 3;
  }
  if (before != ' ') return 0;
  const char last = at >= 2 ? text[at - 2] : ' ';
  return last == '.' || last == '!' || last == '?' ? 2 : 1;
}

size_t AtCharacter(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && !BeginsCharacter(text[at])) --at;
  return at;
}

// As PrefixOf, ended after a paragraph, else a line, a sentence or a word, if one ends in the
// second half.
std::string_view PrefixAtParagraph(std::string_view text, size_t bytes) {
  if (bytes >= text.size()) return text;
  const std::string_view most = PrefixOf(text, bytes);
  for (const std::string_view end : {"\n\n", "\n", ". ", " "}) {
    const size_t found = most.rfind(end);
    if (found == std::string_view::npos || found < most.size() / 2) continue;
    return most.substr(0, found + end.size());
  }
  return most;
}

}  // namespace

size_t CutPlace(std::string_view text, size_t end, size_t back) {
  if (end >= text.size()) return text.size();
  size_t best = 0;
  int quality = 0;
  const size_t earliest = end > back ? std::max<size_t>(end - back, 1) : 1;
  for (size_t at = end; at >= earliest; --at) {
    const int found = QualityOf(text, at);
    if (found > quality) {
      quality = found;
      best = at;
    }
  }
  return quality > 0 ? best : AtCharacter(text, end);
}

size_t BeginPlace(std::string_view text, size_t begin, size_t most) {
  if (begin == 0) return 0;
  size_t best = 0;
  int quality = 0;
  for (size_t at = begin; at <= most && at < text.size(); ++at) {
    const int found = QualityOf(text, at);
    if (found > quality) {
      quality = found;
      best = at;
    }
  }
  return quality > 0 ? best : AtCharacter(text, begin);
}

std::string_view PrefixOf(std::string_view text, size_t bytes) {
  return text.substr(0, AtCharacter(text, std::min(bytes, text.size())));
}

DocumentFitter::DocumentFitter(std::string_view document, std::int64_t window, std::int64_t without,
                               Measure measure)
    : document_(document), window_(window), without_(without), measure_(std::move(measure)) {}

std::optional<std::string_view> DocumentFitter::LongestPrefix(std::string_view text) const {
  const std::int64_t window = window_ - kSpareTokens;
  // A token has a few bytes, rarely more than ten, so a long text is measured by its beginning.
  size_t length =
      std::min(text.size(), static_cast<size_t>(std::max<std::int64_t>(window - without_, 1)) * 10);
  size_t fits = 0;
  size_t fails = text.size() + 1;
  for (int attempt = 0; attempt < 12 && length > fits && length < fails; ++attempt) {
    const size_t cut = CutPlace(text, length, kWordBytes);
    const std::int64_t needs = measure_(text.substr(0, cut));
    const double share = static_cast<double>(window - without_) /
                         static_cast<double>(std::max<std::int64_t>(needs - without_, 1));
    if (needs <= window) {
      fits = std::max(fits, cut);
      if (cut == text.size() || share < 1.02) break;
    } else {
      fails = std::min(fails, length);
    }
    const auto guess = static_cast<size_t>(static_cast<double>(cut) * std::max(share, 0.0) * 0.995);
    length = std::clamp(guess, fits + 1, std::max(fits + 1, fails - 1));
  }
  if (fits == 0) return std::nullopt;
  return text.substr(0, fits);
}

std::optional<std::string_view> DocumentFitter::NextOverlapping() {
  const std::optional<std::string_view> longest = LongestPrefix(document_.substr(begin_));
  if (!longest) return std::nullopt;
  if (begin_ + longest->size() >= document_.size()) {
    begin_ = document_.size();
    return longest;
  }
  const size_t length = CutPlace(document_, begin_ + longest->size(), longest->size() / 4) - begin_;
  const std::string_view part = document_.substr(begin_, length);
  const size_t next = CutPlace(document_, begin_ + length - length / 10, length / 8);
  begin_ = next > begin_ ? next : begin_ + length;
  return part;
}

std::optional<std::string_view> DocumentFitter::NextAdjacent() {
  const std::int64_t room = window_ - without_;
  const auto fitting = [&] {
    return static_cast<size_t>(static_cast<double>(room) * bytes_per_token_);
  };
  size_t bytes = fitting();
  while (true) {
    const std::string_view part =
        PrefixAtParagraph(document_.substr(begin_), std::max<size_t>(bytes, 1));
    const std::int64_t needs = measure_(part);
    if (needs <= window_) {
      begin_ += part.size();
      return part;
    }
    if (part.size() <= 4) return std::nullopt;
    bytes_per_token_ =
        static_cast<double>(part.size()) / std::max(static_cast<double>(needs - without_), 1.0);
    bytes = std::min(fitting(), part.size() - std::max<size_t>(part.size() / 16, 1));
  }
}

bool CutLongest(std::vector<std::string_view>& documents, std::int64_t room,
                const std::function<std::int64_t()>& prompt_tokens) {
  // Every round cuts what is too much at the documents' own rate, and a little more.
  for (std::int64_t tokens = prompt_tokens(); tokens > room; tokens = prompt_tokens()) {
    size_t bytes = 0;
    for (const std::string_view document : documents) bytes += document.size();
    std::string_view& longest = *std::ranges::max_element(
        documents, {}, [](std::string_view document) { return document.size(); });
    if (longest.empty()) return false;
    const double rate = static_cast<double>(bytes) / static_cast<double>(tokens);
    const auto cut = static_cast<size_t>(std::ceil(static_cast<double>(tokens - room) * rate)) + 1;
    longest = PrefixOf(longest, longest.size() - std::min(cut, longest.size()));
  }
  return true;
}

std::int64_t FittingTokens(std::int64_t document_tokens, std::int64_t needed, std::int64_t window) {
  return document_tokens - std::max<std::int64_t>(needed - window, 0);
}

}  // namespace banyan
