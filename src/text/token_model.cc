#include "text/token_model.h"

#include <fmt/format.h>

namespace banyan {

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
