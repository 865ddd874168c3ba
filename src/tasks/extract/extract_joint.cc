#include "tasks/extract/extract_joint.h"

#include <algorithm>

namespace banyan {
namespace {

std::vector<TokenId> Encode(const Text& text, std::string_view piece) {
  const TextPiece plain{piece, /*from_user=*/true};
  return text.EncodeRest({&plain, 1});
}

bool BeginsWith(const std::vector<TokenId>& tokens, const std::vector<TokenId>& beginning) {
  return tokens.size() >= beginning.size() &&
         std::equal(beginning.begin(), beginning.end(), tokens.begin());
}

bool IsInsideCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

Joint FindJoint(const Text& text, std::string_view piece, std::span<const std::string> values) {
  std::vector<std::vector<TokenId>> whole;
  for (const std::string& value : values) whole.push_back(Encode(text, std::string(piece) + value));
  for (size_t kept = piece.size(); kept > 0; --kept) {
    if (kept < piece.size() && IsInsideCharacter(piece[kept])) continue;
    Joint joint{Encode(text, piece.substr(0, kept)), std::string(piece.substr(kept))};
    const bool boundary = std::ranges::all_of(
        whole, [&](const auto& tokens) { return BeginsWith(tokens, joint.tokens); });
    if (boundary && !joint.tokens.empty()) return joint;
  }
  return {{}, std::string(piece)};
}

}  // namespace banyan
