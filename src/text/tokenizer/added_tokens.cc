// Matches added tokens with a trie, from left to right.
#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "text/unicode.h"

namespace banyan {

namespace {

constexpr size_t kMaxContentBytes = 1024;

// Start of the character that ends at `end`. REQUIRES: 0 < end, well-formed text.
size_t CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return begin;
}

bool IsLetter(std::string_view text, size_t at) {
  return (ClassOfCode(ReadUtf8(text, at).code) & kLetterClass) != 0;
}

bool StandsAlone(std::string_view text, TextRange match) {
  if (match.begin > 0 && IsWordCharacter(ReadUtf8(text, CharacterBefore(text, match.begin)).code)) {
    return false;
  }
  return match.end == text.size() || !IsWordCharacter(ReadUtf8(text, match.end).code);
}

size_t SpacesBefore(std::string_view text, size_t end) {
  while (end > 0) {
    const size_t begin = CharacterBefore(text, end);
    if (!IsWhitespace(ReadUtf8(text, begin).code)) break;
    end = begin;
  }
  return end;
}

size_t SpacesAfter(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Character c = ReadUtf8(text, begin);
    if (!IsWhitespace(c.code)) break;
    begin += c.length;
  }
  return begin;
}

// Whether the token, or a space that it absorbs, may lie across a cut between two words.
bool SpansCut(const AddedToken& token, std::string_view content) {
  for (size_t at = content.find(' '); at != std::string_view::npos;
       at = content.find(' ', at + 1)) {
    if (at > 0 && IsLetter(content, CharacterBefore(content, at))) return true;
  }
  return (token.lstrip && IsLetter(content, 0)) ||
         (token.rstrip && IsLetter(content, CharacterBefore(content, content.size())));
}

}  // namespace

bool AddedToken::IsControl() const {
  if (special) return true;
  if (content.size() < 3) return false;
  return (content.front() == '<' && content.back() == '>') ||
         (content.front() == '[' && content.back() == ']');
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens,
                                     std::vector<std::string> contents, const std::string& what)
    : tokens_(std::move(tokens)) {
  std::vector<std::pair<std::string_view, std::int32_t>> keys;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (contents[i].empty()) continue;
    if (contents[i].size() > kMaxContentBytes) {
      Throw(ErrorKind::kLimit, "{}: added token {} has {} bytes, at most {} are allowed", what,
            tokens_[i].id, contents[i].size(), kMaxContentBytes);
    }
    first_bytes_[static_cast<unsigned char>(contents[i][0])] = true;
    allows_cuts_ = allows_cuts_ && !SpansCut(tokens_[i], contents[i]);
    keys.emplace_back(contents[i], static_cast<std::int32_t>(i));
  }
  trie_ = ByteTrie(std::move(keys));
}

void AddedTokenMatcher::Split(std::string_view text, bool with_control,
                              std::vector<Fragment>& out) const {
  const TextRange everything{0, text.size()};
  Split(text, with_control ? std::span<const TextRange>() : std::span(&everything, 1), out);
}

void AddedTokenMatcher::Split(std::string_view text, std::span<const TextRange> plain,
                              std::vector<Fragment>& out) const {
  const auto touches_plain = [&](const TextRange& match) {
    const auto after =
        std::partition_point(plain.begin(), plain.end(),
                             [&](const TextRange& range) { return range.end <= match.begin; });
    return after != plain.end() && after->begin < match.end;
  };
  size_t done = 0;
  for (size_t i = 0; i < text.size() && !empty();) {
    if (!first_bytes_[static_cast<unsigned char>(text[i])]) {
      ++i;
      continue;
    }
    size_t length = 0;
    std::int32_t index = -1;
    trie_.ForEachPrefix(text, i, [&](size_t matched, std::int32_t value) {
      length = matched;
      index = value;
    });
    if (index < 0) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    TextRange match{i, i + length};
    i += length;
    if (token.IsControl() && touches_plain(match)) continue;
    if (token.single_word && !StandsAlone(text, match)) continue;
    if (token.lstrip) match.begin = std::max(done, SpacesBefore(text, match.begin));
    if (token.rstrip) match.end = SpacesAfter(text, match.end);
    match.begin = std::max(match.begin, done);
    if (match.begin > done) out.push_back({{done, match.begin}, -1});
    out.push_back({match, token.id});
    done = std::max(done, match.end);
  }
  if (done < text.size()) out.push_back({{done, text.size()}, -1});
}

}  // namespace banyan
