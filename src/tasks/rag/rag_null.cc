#include "tasks/rag/rag_null.h"

#include <set>
#include <string>

namespace banyan {

std::vector<TokenId> NullTokens(const Text& text, std::string_view separator,
                                std::span<const TokenId> end_tokens) {
  std::set<TokenId> tokens(end_tokens.begin(), end_tokens.end());
  const auto encode = [&](const std::string& spelling) {
    const std::vector<TextPiece> pieces = {{spelling, /*from_user=*/true}};
    return text.EncodeRest(pieces);
  };
  const std::vector<TokenId> usual = encode(std::string(separator) + "null");
  if (!usual.empty()) tokens.insert(usual.front());
  for (const char* spelling : {"null", " null", "Null", " Null", "NULL", " NULL"}) {
    const std::vector<TokenId> whole = encode(spelling);
    if (whole.size() == 1) tokens.insert(whole.front());
  }
  return {tokens.begin(), tokens.end()};
}

}  // namespace banyan
