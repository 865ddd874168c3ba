#include "tasks/job/null_answer.h"

#include <algorithm>
#include <cctype>

namespace banyan {

std::string ComparableAnswer(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80 && std::isspace(byte)) {
      if (!out.empty() && out.back() != ' ') out += ' ';
    } else if (byte >= 0x80 || std::isalnum(byte)) {
      out += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : c;
    }
  }
  if (out.ends_with(' ')) out.pop_back();
  return out;
}

bool SaysNothing(const std::string& answer, const std::string& null_text) {
  const std::string normal = ComparableAnswer(answer);
  return normal.empty() || normal == ComparableAnswer(null_text);
}

bool MayBecomeNothing(std::string_view text, const std::string& null_text) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  return text.size() <= null_text.size() &&
         std::equal(text.begin(), text.end(), null_text.begin(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

}  // namespace banyan
