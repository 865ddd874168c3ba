#include "tasks/prompt/text_cut.h"

#include <algorithm>

namespace banyan {
namespace {

// How good a cut before byte `at` is; 0: none. REQUIRES: 0 < at < text.size().
int QualityOf(std::string_view text, size_t at) {
  const char before = text[at - 1];
  if (before == '\n') {
    // A line that is empty, but for spaces, ends a paragraph.
    size_t line = at - 1;
    while (line > 0 &&
           (text[line - 1] == ' ' || text[line - 1] == '\t' || text[line - 1] == '\r')) {
      --line;
    }
    return line > 0 && text[line - 1] == '\n' ? 4 : 3;
  }
  if (before != ' ') return 0;
  const char last = at >= 2 ? text[at - 2] : ' ';
  return last == '.' || last == '!' || last == '?' ? 2 : 1;
}

size_t AtCharacter(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

size_t CutPlace(std::string_view text, size_t end, size_t back) {
  if (end >= text.size()) return text.size();
  size_t best = 0;
  int quality = 0;
  const size_t earliest = end > back ? std::max<size_t>(end - back, 1) : 1;
  for (size_t at = end; at >= earliest; --at) {
    const int found = QualityOf(text, at);
    if (found > quality) {
      quality = found;
      best = at;
    }
  }
  return quality > 0 ? best : AtCharacter(text, end);
}

size_t BeginPlace(std::string_view text, size_t begin, size_t most) {
  if (begin == 0) return 0;
  size_t best = 0;
  int quality = 0;
  for (size_t at = begin; at <= most && at < text.size(); ++at) {
    const int found = QualityOf(text, at);
    if (found > quality) {
      quality = found;
      best = at;
    }
  }
  return quality > 0 ? best : AtCharacter(text, begin);
}

}  // namespace banyan
