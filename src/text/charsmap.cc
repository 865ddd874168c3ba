#include "text/charsmap.h"

#include <array>

#include "base/error.h"
#include "text/utf8.h"

namespace banyan {
namespace {

// Fields of a unit of the double array (the layout of darts-clone).
bool HasLeaf(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
std::uint32_t Value(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t Label(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t Offset(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& what) {
  const auto byte = [&](size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(blob[i]));
  };
  const auto word = [&](size_t i) {
    return byte(i) | (byte(i + 1) << 8) | (byte(i + 2) << 16) | (byte(i + 3) << 24);
  };
  if (blob.size() < 4) {
    Throw(ErrorKind::kFormat, "{}: expected at least 4 bytes, found {}", what, blob.size());
  }
  const size_t trie_bytes = word(0);
  if (trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    Throw(ErrorKind::kFormat, "{}: its table claims {} bytes of {}", what, trie_bytes,
          blob.size() - 4);
  }
  units_.reserve(trie_bytes / 4);
  for (size_t i = 0; i < trie_bytes; i += 4) units_.push_back(word(4 + i));
  texts_ = blob.substr(4 + trie_bytes);
  if (!IsValidUtf8(texts_)) Throw(ErrorKind::kFormat, "{}: its texts are not UTF-8", what);
}

std::optional<Charsmap::Match> Charsmap::Find(std::string_view text, bool longest) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Match> found;
  size_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto label = static_cast<unsigned char>(text[i]);
    if (label == 0) break;
    node ^= label;
    if (node >= units_.size() || Label(units_[node]) != label) break;
    const std::uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) break;
    const size_t begin = Value(units_[node]);
    if (begin > texts_.size()) break;
    // A replacement that begins inside a character can only come from a damaged table.
    if (begin < texts_.size() && (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80) break;
    const size_t end = texts_.find('\0', begin);
    found = Match{i + 1, std::string_view(texts_).substr(begin, end - begin)};
    if (!longest) break;
  }
  return found;
}

std::string DecodeBase64(std::string_view text, const std::string& what) {
  static constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> value;
  value.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i) {
    value[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int>(i);
  }
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string out;
  out.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int digit = value[static_cast<unsigned char>(c)];
    if (digit < 0) Throw(ErrorKind::kFormat, "{}: expected base64", what);
    bits = ((bits << 6) | static_cast<std::uint32_t>(digit)) & 0xFFFFFFu;
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>((bits >> count) & 0xFF));
    }
  }
  return out;
}

}  // namespace banyan
