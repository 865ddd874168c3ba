#include "text/word_encoder.h"

#include "text/byte_level.h"

namespace banyan {

void WordEncoder::EncodeBytes(std::string_view text, const WordSplitter& splitter) {
  std::string spelled;
  const auto spell = [&](std::string_view word) {
    spelled.clear();
    AppendByteLevel(word, spelled);
    return std::string_view(spelled);
  };
  splitter.ForEachWord(text, [&](std::string_view word) { EncodeWord(word, spell); });
}

}  // namespace banyan
