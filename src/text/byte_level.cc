#include "text/byte_level.h"

#include <array>
#include <cstdint>

#include "text/utf8.h"

namespace banyan {
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

}  // namespace banyan
