#include "retrieve/passages.h"

#include "base/spaces.h"

#include <algorithm>
#include <cstdint>

#include "text/unicode.h"
#include "text/utf8.h"

namespace banyan {
namespace {

// How good a place is for the end of a passage.
enum class Place { kWord, kSentence, kParagraph };

// A place between two words: before so many words and at this byte.
struct Cut {
  size_t byte = 0;
  int words = 0;
  Place place = Place::kWord;
};

bool EndsSentence(char c) { return c == '.' || c == '!' || c == '?'; }

// Every place after a word.
std::vector<Cut> CutsOf(std::string_view text) {
  std::vector<Cut> cuts;
  int words = 0;
  size_t at = 0;
  while (at < text.size()) {
    at = std::min(text.find_first_not_of(kSpaces, at), text.size());
    if (at == text.size()) break;
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    const size_t next = std::min(text.find_first_not_of(kSpaces, end), text.size());
    const std::string_view space = text.substr(end, next - end);
    Cut cut{end, ++words, Place::kWord};
    const bool blank_line = std::count(space.begin(), space.end(), '\n') > 1;
    if (EndsSentence(text[end - 1])) cut.place = Place::kSentence;
    if (blank_line || next == text.size()) cut.place = Place::kParagraph;
    cuts.push_back(cut);
    at = next;
  }
  return cuts;
}

// The last of the best places among those that keep at least half of the words.
size_t BestCut(const std::vector<Cut>& cuts, size_t first, size_t last) {
  const int least = cuts[first].words - 1 + (cuts[last].words - cuts[first].words + 2) / 2;
  size_t best = last;
  for (size_t i = last + 1; i-- > first && cuts[i].words >= least;) {
    if (cuts[i].place > cuts[best].place) best = i;
  }
  return best;
}

std::int64_t CountCharacters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

void AppendPassages(const WholeDocument& document, int most_words, std::vector<Passage>& passages) {
  const std::vector<Cut> cuts = CutsOf(document.text);
  if (cuts.empty()) return;
  const auto most = static_cast<size_t>(std::max(1, most_words));
  const bool divided = cuts.size() > most;
  const std::string_view text = document.text;
  size_t byte = 0, number = 0;
  std::int64_t characters = 0;
  for (size_t first = 0; first < cuts.size();) {
    const bool rest = first + most >= cuts.size();
    const size_t end = rest ? cuts.size() - 1 : BestCut(cuts, first, first + most - 1);
    const size_t begin = std::min(text.find_first_not_of(kSpaces, byte), text.size());
    characters += CountCharacters(text.substr(byte, begin - byte));
    Passage& passage = passages.emplace_back();
    passage.source = document.id;
    passage.id = divided ? document.id + "#" + std::to_string(++number) : document.id;
    passage.title = document.title;
    passage.text = text.substr(begin, cuts[end].byte - begin);
    passage.begin = characters;
    characters += CountCharacters(passage.text);
    byte = cuts[end].byte;
    first = end + 1;
  }
}

}  // namespace banyan
