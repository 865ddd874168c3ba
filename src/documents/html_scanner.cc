// The tokenizer of HTML. libxml2's own parser is not used for pages: its time grows with the square
// of a tag's attributes, and nothing can stop it. Its table of named characters is.
#include "documents/html_scanner.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <unordered_map>

#include "text/unicode.h"
#ifdef BANYAN_WITH_LIBXML2
#include <libxml/HTMLparser.h>
#endif

namespace banyan {
namespace {

constexpr size_t kLongestName = 16;  // no element or reference that matters has a longer one

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHtmlSpace(char c) { return kHtmlSpaces.find(c) != std::string_view::npos; }
char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// "amp" → '&'; 0: there is no such name.
std::uint32_t NamedCharacter([[maybe_unused]] std::string_view name) {
#ifdef BANYAN_WITH_LIBXML2
  static const auto* names = [] {
    constexpr unsigned kLastValue = 10'000;
    auto* known = new std::unordered_map<std::string, std::uint32_t>;
    for (unsigned value = 1; value < kLastValue; ++value) {
      if (const htmlEntityDesc* found = ::htmlEntityValueLookup(value)) {
        known->emplace(found->name, value);
      }
    }
    return known;
  }();
  const auto found = names->find(std::string(name));
  return found == names->end() ? 0 : found->second;
#else
  return 0;
#endif
}

// `text` begins behind "&#". Returns how much of it was taken.
size_t ReadNumber(std::string_view text, std::uint32_t& value) {
  constexpr std::uint32_t kTooLarge = 0x110000;
  const bool hex = !text.empty() && (text[0] == 'x' || text[0] == 'X');
  size_t at = hex ? 1 : 0;
  value = 0;
  for (; at < text.size(); ++at) {
    const char c = Lower(text[at]);
    std::uint32_t digit;
    if (IsDigit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (hex && c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a') + 10;
    } else {
      break;
    }
    value = std::min(kTooLarge, value * (hex ? 16 : 10) + digit);
  }
  if (at == (hex ? 1u : 0u)) return 0;
  if (at < text.size() && text[at] == ';') ++at;
  const bool character = value >= 0x20 || value == '\t' || value == '\n' || value == '\r';
  const bool surrogate = value >= 0xD800 && value < 0xE000;
  if (!character || surrogate || value >= kTooLarge) value = 0;
  return at;
}

// The charset that a meta tag near the beginning of the page declares; empty when none does.
std::string DeclaredCharset(std::string_view html) {
  constexpr size_t kLookAt = 4096;
  HtmlScanner scanner(html.substr(0, kLookAt));
  HtmlToken token;
  while (scanner.Next(token)) {
    if (token.kind != HtmlToken::Kind::kBegin || token.name != "meta") continue;
    const std::string attributes = LowerCase(token.attributes);
    const size_t place = attributes.find("charset");
    if (place == std::string::npos) continue;
    const size_t begin = attributes.find_first_not_of(" =\"'", place + 7);
    if (begin == std::string::npos) continue;
    const size_t end = attributes.find_first_of(" \"';/>", begin);
    return attributes.substr(begin, std::min(end, attributes.size()) - begin);
  }
  return {};
}

// Encodings that pages are written in; any other name is taken for Latin.
std::string KnownCharset(const std::string& name) {
  for (const char* known :
       {"iso-8859-", "windows-12", "windows-874", "koi8-", "shift_jis", "euc-jp", "euc-kr",
        "gb2312", "gbk", "gb18030", "big5", "macintosh", "cp125"}) {
    const bool plain = std::ranges::all_of(
        name, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    if (plain && name.size() < 20 && name.starts_with(known)) return name;
  }
  return "windows-1252";
}

// Invalid bytes become U+FFFD.
std::string ToUtf8(std::string_view bytes, const std::string& charset) {
  const iconv_t converter = ::iconv_open("UTF-8", charset.c_str());
  std::string text;
  if (converter == reinterpret_cast<iconv_t>(-1)) {
    AppendLossyUtf8(bytes, text);
    return text;
  }
  std::array<char, 1 << 16> chunk{};
  char* in = const_cast<char*>(bytes.data());
  size_t left = bytes.size();
  while (left > 0) {
    char* out = chunk.data();
    size_t room = chunk.size();
    const size_t result = ::iconv(converter, &in, &left, &out, &room);
    text.append(chunk.data(), chunk.size() - room);
    if (result == static_cast<size_t>(-1) && errno != E2BIG && left > 0) {
      text += "\xEF\xBF\xBD";
      ++in;
      --left;
    }
  }
  ::iconv_close(converter);
  return text;
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), Lower);
  return lower;
}

void AppendResolved(std::string_view text, std::string& out) {
  while (true) {
    const size_t sign = std::min(text.find('&'), text.size());
    out += text.substr(0, sign);
    text.remove_prefix(sign);
    if (text.empty()) return;
    std::uint32_t value = 0;
    size_t taken = 0;
    if (text.size() > 2 && text[1] == '#') {
      taken = ReadNumber(text.substr(2), value);
      if (taken > 0) taken += 2;
    } else {
      size_t end = 1;
      while (end < text.size() && end <= kLongestName &&
             (IsLetter(text[end]) || IsDigit(text[end])))
        ++end;
      if (end > 1 && end < text.size() && text[end] == ';') {
        value = NamedCharacter(text.substr(1, end - 1));
        if (value != 0) taken = end + 1;
      }
    }
    if (taken == 0) {
      out += '&';
      taken = 1;
    } else if (value != 0) {
      AppendUtf8(value, out);
    }
    text.remove_prefix(taken);
  }
}

size_t HtmlScanner::Find(std::string_view what, size_t from) const {
  return std::min(html_.find(what, from), html_.size());
}

bool HtmlScanner::Next(HtmlToken& token) {
  while (at_ < html_.size()) {
    if (html_[at_] != '<') {
      const size_t end = Find("<", at_);
      token.kind = HtmlToken::Kind::kText;
      token.text = html_.substr(at_, end - at_);
      at_ = end;
      return true;
    }
    const char next = at_ + 1 < html_.size() ? html_[at_ + 1] : '\0';
    const char after = at_ + 2 < html_.size() ? html_[at_ + 2] : '\0';
    if (IsLetter(next) || (next == '/' && IsLetter(after))) {
      if (ReadTag(token)) return true;
    } else if (next == '!' || next == '?' || next == '/') {
      SkipComment();
    } else {  // "a < b"
      token.kind = HtmlToken::Kind::kText;
      token.text = html_.substr(at_++, 1);
      return true;
    }
  }
  return false;
}

// Of a page that ends within a comment the rest is one.
void HtmlScanner::SkipComment() {
  const bool comment = html_.substr(at_).starts_with("<!--");
  const std::string_view end = comment ? "-->" : ">";
  at_ = std::min(Find(end, at_ + (comment ? 4 : 2)) + end.size(), html_.size());
}

// False: the page ends within it.
bool HtmlScanner::ReadTag(HtmlToken& token) {
  const bool ends = html_[at_ + 1] == '/';
  at_ += ends ? 2 : 1;
  token.kind = ends ? HtmlToken::Kind::kEnd : HtmlToken::Kind::kBegin;
  token.name.clear();
  while (at_ < html_.size() && !IsHtmlSpace(html_[at_]) && html_[at_] != '>' && html_[at_] != '/') {
    if (token.name.size() < kLongestName) token.name += Lower(html_[at_]);
    ++at_;
  }
  SkipAttributes(token);
  if (at_ == html_.size()) return false;
  ++at_;
  if (!ends && !token.closed && (token.name == "script" || token.name == "style")) {
    SkipRawText(token.name);
  }
  return true;
}

// Up to the '>' that is not in a quoted value, or the end.
void HtmlScanner::SkipAttributes(HtmlToken& token) {
  const size_t begin = at_;
  bool value = false;  // after "="
  for (; at_ < html_.size() && html_[at_] != '>'; ++at_) {
    const char c = html_[at_];
    if (value && (c == '"' || c == '\'')) at_ = Find(html_.substr(at_, 1), at_ + 1);
    value = c == '=' || (value && IsHtmlSpace(c));
  }
  at_ = std::min(at_, html_.size());
  token.attributes = html_.substr(begin, at_ - begin);
  token.closed = token.attributes.ends_with('/');
}

// To "</name", which is read next.
void HtmlScanner::SkipRawText(std::string_view name) {
  while (at_ < html_.size()) {
    at_ = Find("</", at_);
    const std::string_view there = html_.substr(std::min(at_ + 2, html_.size()), name.size());
    if (std::ranges::equal(there, name, [](char a, char b) { return Lower(a) == b; })) return;
    at_ = std::min(at_ + 2, html_.size());
  }
}

bool NextAttribute(std::string_view& rest, std::string& name, std::string& value) {
  const size_t begin = rest.find_first_not_of(" \t\r\n\f/");
  if (begin == std::string_view::npos) return false;
  rest.remove_prefix(begin);
  size_t end = std::min(rest.find_first_of(" \t\r\n\f/=", 1), rest.size());
  name = LowerCase(rest.substr(0, end));
  value.clear();
  rest.remove_prefix(end);
  const size_t equals = rest.find_first_not_of(kHtmlSpaces);
  if (equals == std::string_view::npos || rest[equals] != '=') return true;
  rest.remove_prefix(equals + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(kHtmlSpaces), rest.size()));
  if (rest.empty()) return true;
  const bool quoted = rest.front() == '"' || rest.front() == '\'';
  end = quoted ? rest.find(rest.front(), 1) : rest.find_first_of(kHtmlSpaces);
  end = std::min(end, rest.size());
  AppendResolved(rest.substr(quoted ? 1 : 0, end - (quoted ? 1 : 0)), value);
  rest.remove_prefix(std::min(end + (quoted ? 1 : 0), rest.size()));
  return true;
}

std::string HtmlToUtf8(std::string_view html) {
  return ToUtf8(html, KnownCharset(DeclaredCharset(html)));
}

}  // namespace banyan
