#include "retrieve/words.h"

#include <utility>

#include "text/unicode.h"
#include "text/utf8.h"

namespace banyan {

std::vector<std::string> WordsOf(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    at += character.length;
    if (!character.valid || !IsWordCharacter(character.code)) {
      end_word();
      continue;
    }
    const bool alone = IsChineseCharacter(character.code);
    if (alone) end_word();
    AppendLowercase(character.code, word);
    if (alone) end_word();
  }
  end_word();
  return words;
}

}  // namespace banyan
