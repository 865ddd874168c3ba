// A hash table by spelling, a trie, and the alphabets of bytes.
#include "text/tokenizer/vocabulary.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>

#include "base/error.h"
#include "text/unicode.h"

namespace banyan {

namespace {

size_t HashOf(std::string_view token) { return std::hash<std::string_view>{}(token); }

}  // namespace

void Vocabulary::Add(std::int64_t id, std::string_view token, const std::string& what) {
  if (id < 0 || id > kMaxId) {
    Throw(ErrorKind::kFormat, "{}: token '{}' has id {}, expected 0 to {}", what,
          token.substr(0, 64), id, kMaxId);
  }
  if (token.size() > std::numeric_limits<std::uint16_t>::max()) {
    Throw(ErrorKind::kFormat, "{}: token {} has {} bytes, at most 65535 are allowed", what, id,
          token.size());
  }
  if ((entries_.size() + 1) * 2 > slots_.size()) Rehash(slots_.empty() ? 64 : slots_.size() * 2);
  entries_.push_back(
      {characters_.size(), static_cast<std::uint32_t>(token.size()), static_cast<TokenId>(id)});
  characters_ += token;
  const auto entry = static_cast<std::uint32_t>(entries_.size());
  const size_t hash = HashOf(token);
  const size_t slot = SlotFor(token, hash);
  slots_[slot] = entry;
  hashes_[slot] = static_cast<std::uint32_t>(hash >> 32);
  const auto index = static_cast<size_t>(id);
  if (index >= spans_.size()) spans_.resize(index + 1, 0);
  spans_[index] = entry;
}

// The slot that holds `token`, or the free one where it belongs.
size_t Vocabulary::SlotFor(std::string_view token, size_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto high = static_cast<std::uint32_t>(hash >> 32);
  size_t slot = hash & mask;
  while (slots_[slot] != 0) {
    if (hashes_[slot] == high && TextOf(entries_[slots_[slot] - 1]) == token) break;
    slot = (slot + 1) & mask;
  }
  return slot;
}

void Vocabulary::Rehash(size_t slots) {
  slots_.assign(slots, 0);
  hashes_.assign(slots, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view token = TextOf(entries_[i]);
    const size_t hash = HashOf(token);
    const size_t slot = SlotFor(token, hash);
    slots_[slot] = static_cast<std::uint32_t>(i + 1);
    hashes_[slot] = static_cast<std::uint32_t>(hash >> 32);
  }
}

std::optional<TokenId> Vocabulary::Find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t entry = slots_[SlotFor(token, HashOf(token))];
  if (entry == 0) return std::nullopt;
  return entries_[entry - 1].id;
}

bool Vocabulary::Has(TokenId id) const {
  return id >= 0 && static_cast<size_t>(id) < spans_.size() && spans_[static_cast<size_t>(id)] != 0;
}

std::string_view Vocabulary::Text(TokenId id) const {
  return Has(id) ? TextOf(entries_[spans_[static_cast<size_t>(id)] - 1]) : std::string_view();
}

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> keys) {
  std::erase_if(keys, [](const auto& key) { return key.first.empty(); });
  if (keys.empty()) return;
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });

  struct Range {  // keys [begin, end) share their first `depth` bytes, which lead to node `node`
    size_t begin, end, depth, node;
  };
  nodes_.emplace_back();
  labels_.push_back(0);
  std::vector<Range> level{{0, keys.size(), 0, 0}};
  std::vector<Range> next;
  while (!level.empty()) {
    next.clear();
    for (const Range& range : level) {
      size_t i = range.begin;
      if (range.depth > 0 && keys[i].first.size() == range.depth) {
        nodes_[range.node].value = keys[i].second;
        while (i < range.end && keys[i].first.size() == range.depth) ++i;
      }
      nodes_[range.node].first_child = static_cast<std::int32_t>(nodes_.size());
      while (i < range.end) {
        const auto label = static_cast<unsigned char>(keys[i].first[range.depth]);
        const size_t begin = i;
        while (i < range.end && static_cast<unsigned char>(keys[i].first[range.depth]) == label) {
          ++i;
        }
        next.push_back({begin, i, range.depth + 1, nodes_.size()});
        nodes_.emplace_back();
        labels_.push_back(label);
        ++nodes_[range.node].children;
      }
    }
    level.swap(next);
  }
}

namespace {

constexpr int kCharacters = 0x144;  // every spelling is below this code

struct ByteLevelTable {
  struct Spelling {
    char bytes[2];
    std::uint8_t length;
  };
  std::array<Spelling, 256> spelling{};
  std::array<int, kCharacters> byte;  // -1: spells nothing

  ByteLevelTable() {
    byte.fill(-1);
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const int code = prints ? b : next++;
      std::string text;
      AppendUtf8(static_cast<char32_t>(code), text);
      Spelling& s = spelling[static_cast<size_t>(b)];
      s.length = static_cast<std::uint8_t>(text.copy(s.bytes, sizeof(s.bytes)));
      byte[static_cast<size_t>(code)] = b;
    }
  }
};

const ByteLevelTable& Table() {
  static const ByteLevelTable table;
  return table;
}

}  // namespace

void AppendByteLevel(std::string_view bytes, std::string& out) {
  const ByteLevelTable& table = Table();
  size_t end = out.size();
  out.resize(end + 2 * bytes.size());
  for (const char c : bytes) {
    const ByteLevelTable::Spelling& spelling = table.spelling[static_cast<unsigned char>(c)];
    out[end] = spelling.bytes[0];
    out[end + 1] = spelling.bytes[1];
    end += spelling.length;
  }
  out.resize(end);
}

bool AppendFromByteLevel(std::string_view token, std::string& out) {
  const ByteLevelTable& table = Table();
  const size_t begin = out.size();
  for (size_t i = 0; i < token.size();) {
    const Utf8Character c = ReadUtf8(token, i);
    if (!c.valid || c.code >= kCharacters || table.byte[c.code] < 0) {
      out.resize(begin);
      return false;
    }
    out.push_back(static_cast<char>(table.byte[c.code]));
    i += c.length;
  }
  return true;
}

std::optional<std::string> FromByteLevel(std::string_view token) {
  std::string out;
  if (!AppendFromByteLevel(token, out)) return std::nullopt;
  return out;
}

int ParseByteToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

std::vector<TokenId> FindByteTokens(const Vocabulary& vocabulary) {
  std::vector<TokenId> ids(256, -1);
  for (int b = 0; b < 256; ++b) {
    ids[static_cast<size_t>(b)] = vocabulary.Find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  }
  return ids;
}

}  // namespace banyan
