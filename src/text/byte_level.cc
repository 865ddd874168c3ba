#include "text/byte_level.h"

#include <array>

#include "text/utf8.h"

namespace banyan {
namespace {

constexpr int kCharacters = 0x144;  // every spelling is below this code

struct ByteLevelTable {
  std::array<std::string, 256> spelling;
  std::array<int, kCharacters> byte;  // -1: spells nothing

  ByteLevelTable() {
    byte.fill(-1);
    int next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool prints = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      const int code = prints ? b : next++;
      AppendUtf8(static_cast<char32_t>(code), spelling[static_cast<size_t>(b)]);
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
  for (const char c : bytes) out += table.spelling[static_cast<unsigned char>(c)];
}

std::optional<std::string> FromByteLevel(std::string_view token) {
  const ByteLevelTable& table = Table();
  std::string out;
  for (size_t i = 0; i < token.size();) {
    const Utf8Character c = ReadUtf8(token, i);
    if (!c.valid || c.code >= kCharacters || table.byte[c.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(table.byte[c.code]));
    i += c.length;
  }
  return out;
}

}  // namespace banyan
