#include "baseline/prompt_lookup.h"

#include <algorithm>

namespace banyan {

std::vector<TokenId> LookUpDraft(std::span<const TokenId> text, int longest, int most) {
  const size_t size = text.size();
  size_t best = 0, best_end = 0;  // tokens of the match, and where it ends
  for (size_t end = size - (size > 0 ? 1 : 0); end > 0 && best < static_cast<size_t>(longest);
       --end) {
    size_t match = 0;
    while (match < static_cast<size_t>(longest) && match < end &&
           text[end - 1 - match] == text[size - 1 - match]) {
      ++match;
    }
    if (match > best) {  // of equal ones the latest, which is met first
      best = match;
      best_end = end;
    }
  }
  if (best == 0 || most <= 0) return {};
  const size_t count = std::min(size - best_end, static_cast<size_t>(most));
  const std::span<const TokenId> after = text.subspan(best_end, count);
  return {after.begin(), after.end()};
}

}  // namespace banyan
