// One parser for each language; the longest match wins.
#include "values/number_words.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "values/value_text.h"

namespace banyan {
namespace {

struct NamedNumber {
  std::string_view word;
  int value;
};

std::optional<int> Lookup(std::span<const NamedNumber> table, std::string_view word) {
  for (const NamedNumber& entry : table) {
    if (entry.word == word) return entry.value;
  }
  return std::nullopt;
}

constexpr NamedNumber kEnglish[] = {
    {"zero", 0},     {"one", 1},      {"two", 2},        {"three", 3},     {"four", 4},
    {"five", 5},     {"six", 6},      {"seven", 7},      {"eight", 8},     {"nine", 9},
    {"ten", 10},     {"eleven", 11},  {"twelve", 12},    {"thirteen", 13}, {"fourteen", 14},
    {"fifteen", 15}, {"sixteen", 16}, {"seventeen", 17}, {"eighteen", 18}, {"nineteen", 19},
    {"twenty", 20},  {"thirty", 30},  {"forty", 40},     {"fifty", 50},    {"sixty", 60},
    {"seventy", 70}, {"eighty", 80},  {"ninety", 90},
};
constexpr NamedNumber kFrench[] = {
    {"zero", 0},      {"un", 1},         {"une", 1},       {"deux", 2},      {"trois", 3},
    {"quatre", 4},    {"cinq", 5},       {"six", 6},       {"sept", 7},      {"huit", 8},
    {"neuf", 9},      {"dix", 10},       {"onze", 11},     {"douze", 12},    {"treize", 13},
    {"quatorze", 14}, {"quinze", 15},    {"seize", 16},    {"vingt", 20},    {"trente", 30},
    {"quarante", 40}, {"cinquante", 50}, {"soixante", 60}, {"septante", 70}, {"huitante", 80},
    {"octante", 80},  {"nonante", 90},
};
constexpr NamedNumber kGermanUnits[] = {
    {"ein", 1},  {"eins", 1},  {"zwei", 2},  {"zwo", 2},    {"drei", 3}, {"vier", 4},
    {"funf", 5}, {"fuenf", 5}, {"sechs", 6}, {"sieben", 7}, {"acht", 8}, {"neun", 9},
};
constexpr NamedNumber kGermanTens[] = {
    {"zwanzig", 20}, {"dreissig", 30}, {"vierzig", 40}, {"funfzig", 50}, {"fuenfzig", 50},
    {"sechzig", 60}, {"siebzig", 70},  {"achtzig", 80}, {"neunzig", 90},
};
constexpr NamedNumber kGermanTeens[] = {
    {"zehn", 10},     {"elf", 11},      {"zwolf", 12},    {"zwoelf", 12},
    {"dreizehn", 13}, {"vierzehn", 14}, {"funfzehn", 15}, {"fuenfzehn", 15},
    {"sechzehn", 16}, {"siebzehn", 17}, {"achtzehn", 18}, {"neunzehn", 19},
};
// In order of their number, from the first to the twelfth.
constexpr std::string_view kOrdinalWords[] = {
    "first erste ersten erster erstes premier premiere",
    "second zweite zweiten zweiter zweites deuxieme seconde",
    "third dritte dritten dritter drittes troisieme",
    "fourth vierte vierten vierter viertes quatrieme",
    "fifth funfte funften funfter cinquieme",
    "sixth sechste sechsten sechster sixieme",
    "seventh siebte siebten siebter septieme",
    "eighth achte achten achter huitieme",
    "ninth neunte neunten neunter neuvieme",
    "tenth zehnte zehnten zehnter dixieme",
    "eleventh elfte elften elfter onzieme",
    "twelfth zwolfte zwolften zwolfter douzieme"};

constexpr std::string_view kArticles = "a an ein eine einen einem einer eines un une";
constexpr std::string_view kHalves = "half halb halbe halben halber halbes demi demie";
constexpr std::string_view kDozens = "dozen dozens dutzend douzaine douzaines";

// What the compound parsers below return: how many words, and which number.
struct Parsed {
  size_t words = 0;
  int value = 0;
};

Parsed ReadEnglish(std::span<const std::string> words) {
  Parsed best;
  int total = 0;
  int current = 0;
  bool any = false;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "and" && any && current % 100 == 0) continue;
    const bool article = i == 0 && words[i] == "a" && words.size() > 1 &&
                         (words[1] == "hundred" || words[1] == "thousand");
    const std::optional<int> number = article ? 1 : Lookup(kEnglish, words[i]);
    if (number) {
      const int rest = current % 100;
      const bool fits = rest == 0 ? !any || current > 0 || total > 0
                                  : rest >= 20 && rest % 10 == 0 && *number > 0 && *number < 10;
      if (!fits || (*number == 0 && any)) break;
      current += *number;
    } else if (words[i] == "hundred" && current > 0 && current < 10) {
      current *= 100;
    } else if (words[i] == "thousand" && current > 0 && total == 0) {
      total = current * 1000;
      current = 0;
    } else {
      break;
    }
    any = true;
    best = {i + 1, total + current};
  }
  return best;
}

bool FrenchFits(int current, int number, bool first) {
  const int rest = current % 100;
  if (rest == 0) return first || (current > 0 && number > 0);
  if (rest == 10 || rest == 70 || rest == 90) return number >= 7 && number <= 9;
  if (rest == 60 || rest == 80) return number > 0 && number < 20;
  return rest >= 20 && rest <= 50 && rest % 10 == 0 && number > 0 && number < 10;
}

Parsed ReadFrench(std::span<const std::string> words) {
  Parsed best;
  int total = 0;
  int current = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool first = i == 0;
    const int rest = current % 100;
    if (word == "et" && rest >= 20 && i + 1 < words.size() &&
        ListHasWord("un une onze", words[i + 1])) {
      continue;
    }
    if ((word == "vingt" || word == "vingts") && rest == 4) {
      current += 76;  // four twenties
    } else if (const std::optional<int> number = Lookup(kFrench, word)) {
      if (!FrenchFits(current, *number, first || (current == 0 && total > 0))) break;
      current += *number;
    } else if ((word == "cent" || word == "cents") && current < 10 && (!first || word == "cent")) {
      current = std::max(current, 1) * 100;
    } else if (word == "mille" && total == 0) {
      total = std::max(current, 1) * 1000;
      current = 0;
    } else {
      break;
    }
    best = {i + 1, total + current};
  }
  return best;
}

// 1 to 99 in one word, or nothing.
std::optional<int> GermanBelowHundred(std::string_view word) {
  if (const auto teen = Lookup(kGermanTeens, word)) return teen;
  if (const auto unit = Lookup(kGermanUnits, word)) return unit;
  if (const auto tens = Lookup(kGermanTens, word)) return tens;
  for (size_t at = word.find("und"); at != std::string_view::npos; at = word.find("und", at + 1)) {
    const auto unit = Lookup(kGermanUnits, word.substr(0, at));
    const auto tens = Lookup(kGermanTens, word.substr(at + 3));
    if (unit && tens) return *tens + *unit;
  }
  return std::nullopt;
}

// [number]MARK[und][number], such as zweihundertfünf; read(part) gives the parts.
template <typename Read>
std::optional<int> GermanAround(std::string_view word, std::string_view mark, int size, Read read) {
  const size_t at = word.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<int> front = at == 0 ? 1 : read(word.substr(0, at));
  std::string_view after = word.substr(at + mark.size());
  if (after.starts_with("und") && after.size() > 3) after.remove_prefix(3);
  const std::optional<int> back = after.empty() ? 0 : read(after);
  if (!front || !back || *back >= size || *front >= 1000) return std::nullopt;
  return *front * size + *back;
}

std::optional<int> GermanBelowThousand(std::string_view word) {
  if (const auto small = GermanBelowHundred(word)) return small;
  return GermanAround(word, "hundert", 100, GermanBelowHundred);
}

std::optional<int> GermanNumber(std::string_view word) {
  constexpr size_t kLongestGermanNumber = 60;
  if (word.size() > kLongestGermanNumber) return std::nullopt;
  if (const auto small = GermanBelowThousand(word)) return small;
  return GermanAround(word, "tausend", 1000, GermanBelowThousand);
}

// "two and a half", "deux et demi": how many words after the number add a half.
size_t HalfAfter(std::span<const std::string> words) {
  if (words.size() >= 2 && words[0] == "et" && ListHasWord("demi demie", words[1])) return 2;
  const bool and_a_half = words.size() >= 3 && words[0] == "and" && words[1] == "a";
  return and_a_half && words[2] == "half" ? 3 : 0;
}

WordNumber ReadHalf(std::span<const std::string> words) {
  size_t i = 0;
  if (i < words.size() && ListHasWord(kArticles, words[i])) ++i;
  if (i >= words.size() || !ListHasWord(kHalves, words[i])) return {};
  ++i;
  if (i < words.size() && ListHasWord(kArticles, words[i])) ++i;
  return {i, MakeDecimal(5, -1), true, false};
}

WordNumber ReadPlain(std::span<const std::string> words) {
  const std::string& first = words[0];
  if (first == "anderthalb" || first == "eineinhalb") return {1, MakeDecimal(15, -1), false, false};
  if (first.ends_with("einhalb")) {
    const auto whole = GermanNumber(std::string_view(first).substr(0, first.size() - 7));
    if (whole) return {1, MakeDecimal(*whole * 10 + 5, -1), false, false};
  }
  Parsed parsed = ReadEnglish(words);
  if (const Parsed french = ReadFrench(words); french.words > parsed.words) parsed = french;
  if (parsed.words == 0) {
    if (const auto german = GermanNumber(first)) parsed = {1, *german};
  }
  if (parsed.words > 0) {
    const bool weak = parsed.words == 1 && ListHasWord(kArticles, first);
    return {parsed.words, MakeDecimal(parsed.value), weak, false};
  }
  if (ListHasWord(kArticles, first)) return {1, MakeDecimal(1), true, false};
  if (ListHasWord(kDozens, first)) return {1, MakeDecimal(12), false, false};
  for (size_t i = 0; i < std::size(kOrdinalWords); ++i) {
    if (ListHasWord(kOrdinalWords[i], first)) {
      return {1, MakeDecimal(static_cast<int>(i) + 1), false, true};
    }
  }
  return {};
}

}  // namespace

WordNumber ReadNumberWords(std::span<const std::string> words) {
  constexpr size_t kMostWords = 12;
  if (words.empty()) return {};
  words = words.first(std::min(words.size(), kMostWords));
  WordNumber number = ReadHalf(words);
  if (number.words == 0) number = ReadPlain(words);
  if (number.words == 0 || number.ordinal) return number;
  const std::span<const std::string> after = words.subspan(number.words);
  if (!after.empty() && ListHasWord(kDozens, after[0])) {
    return {number.words + 1, number.value * MakeDecimal(12), false, false};
  }
  if (const size_t half = HalfAfter(after); half > 0 && !number.weak) {
    return {number.words + half, number.value + MakeDecimal(5, -1), false, false};
  }
  return number;
}

int MagnitudeOf(std::string_view word) {
  if (ListHasWord("thousand thousands tsd tausend mille", word)) return 3;
  if (ListHasWord("million millions mio mln millionen", word)) return 6;
  if (ListHasWord("billion billions bn mrd mia milliarde milliarden milliard milliards mds",
                  word)) {
    return 9;
  }
  if (ListHasWord("trillion trillions billionen", word)) return 12;
  return 0;
}

bool IsGermanOrFrenchMagnitude(std::string_view word) {
  return ListHasWord(
      "tsd tausend mille mio millionen mrd mia milliarde milliarden milliard milliards mds "
      "billionen",
      word);
}

}  // namespace banyan
