// Looks entries up by their keys and finds the kinds of documents by cues.
#include "propose/lexicon.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "propose/labels.h"
#include "values/convert.h"
#include "values/unit_table.h"
#include "values/value_text.h"

namespace banyan {
namespace {

constexpr size_t kMostKinds = 2;
constexpr size_t kCueBytes = 4000;  // of a document: enough to tell its kind

std::vector<std::string> PartsOf(std::string_view list) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find('|', begin), list.size());
    parts.emplace_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

using EntryByKey = std::map<std::string, const LexiconEntry*, std::less<>>;

// Names before aliases: an alias of one entry may be the name of another.
EntryByKey MakeKeys(const LexiconKind& kind) {
  EntryByKey keys;
  for (const LexiconEntry& entry : kind.entries) keys.emplace(LabelKey(entry.name), &entry);
  for (const LexiconEntry& entry : kind.entries) {
    for (const std::string& alias : PartsOf(entry.aliases)) keys.emplace(LabelKey(alias), &entry);
  }
  return keys;
}

const EntryByKey& KeysOf(const LexiconKind& kind) {
  static const std::vector<EntryByKey> all = [] {
    std::vector<EntryByKey> made;
    for (const LexiconKind& each : LexiconKinds()) made.push_back(MakeKeys(each));
    return made;
  }();
  return all[static_cast<size_t>(&kind - LexiconKinds().data())];
}

// Of whole words, folded, with a space at either end.
std::string CueText(std::string_view document) {
  std::string text = " ";
  for (const std::string& word : FoldedWords(document.substr(0, kCueBytes))) text += word + " ";
  return text;
}

int CuesOf(const LexiconKind& kind, const std::string& text,
           const std::vector<std::string>& labels) {
  std::set<std::string> seen;
  for (const std::string& cue : PartsOf(kind.cues)) {
    if (text.find(" " + cue + " ") != std::string::npos) seen.insert(cue);
  }
  const auto known = [&](const std::string& key) { return KeysOf(kind).contains(key); };
  return static_cast<int>(seen.size() + static_cast<size_t>(std::ranges::count_if(labels, known)));
}

std::optional<Dimension> DimensionOf(Expected expected) {
  switch (expected) {
    case Expected::kMoney:
      return Dimension::kMoney;
    case Expected::kMass:
      return Dimension::kMass;
    case Expected::kVolume:
      return Dimension::kVolume;
    case Expected::kLength:
      return Dimension::kLength;
    case Expected::kArea:
      return Dimension::kArea;
    case Expected::kTime:
      return Dimension::kTime;
    case Expected::kPower:
      return Dimension::kPower;
    case Expected::kVoltage:
      return Dimension::kVoltage;
    case Expected::kData:
      return Dimension::kData;
    case Expected::kEnergy:
      return Dimension::kEnergy;
    default:
      return std::nullopt;
  }
}

bool Converts(std::string_view value, ValueType type) {
  ValueWish wish;
  wish.type = type;
  return !ConvertValue(value, wish).value.is_null();
}

// A unit of the dimension anywhere in it, alone ("12-Ounce") or of two words ("8 fl oz").
bool HasUnit(std::string_view value, Dimension dimension) {
  std::vector<std::string> words;
  std::string word;
  const auto close = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (const char c : value) {
    const bool divides = (c >= '0' && c <= '9') || c == ' ' || c == '-' || c == ',' || c == '.' ||
                         c == '(' || c == ')' || c == '/';
    if (divides) {
      close();
    } else {
      word += c;
    }
  }
  close();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string two = i + 1 < words.size() ? words[i] + " " + words[i + 1] : "";
    const Unit* unit = two.empty() ? nullptr : FindUnit(two);
    if (unit != nullptr) {
      if (unit->dimension == dimension) return true;
      ++i;  // "fl oz" is no mass
      continue;
    }
    unit = FindUnit(words[i]);
    if (unit != nullptr && unit->dimension == dimension) return true;
    const bool months = unit != nullptr && unit->dimension == Dimension::kMonths;
    if (months && dimension == Dimension::kTime) return true;
  }
  return false;
}

}  // namespace

bool LooksLike(Expected expected, std::string_view value) {
  switch (expected) {
    case Expected::kAnything:
    case Expected::kWords:
    case Expected::kList:
      return true;
    case Expected::kNumber:
      return HasDigit(value) || Converts(value, ValueType::kNumber);
    case Expected::kCount:
      return LooksLike(Expected::kNumber, value) && !HasUnit(value, Dimension::kMass) &&
             !HasUnit(value, Dimension::kVolume) && !HasUnit(value, Dimension::kLength);
    case Expected::kCode:
      return HasDigit(value);
    case Expected::kDate:
      return HasDigit(value);
    case Expected::kMoney:
      return HasUnit(value, Dimension::kMoney) || Converts(value, ValueType::kNumber);
    default:
      return HasUnit(value, *DimensionOf(expected));
  }
}

const LexiconKind* FindLexiconKind(std::string_view name) {
  for (const LexiconKind& kind : LexiconKinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

std::vector<const LexiconKind*> KindsOf(std::span<const std::string> documents,
                                        std::span<const std::vector<std::string>> labels) {
  struct Vote {
    const LexiconKind* kind;
    size_t documents = 0;
    int cues = 0;
  };
  std::vector<Vote> votes;
  for (const LexiconKind& kind : LexiconKinds()) votes.push_back({&kind});
  for (size_t d = 0; d < documents.size(); ++d) {
    const std::string text = CueText(documents[d]);
    for (Vote& vote : votes) {
      const int cues = CuesOf(*vote.kind, text, labels[d]);
      vote.documents += cues >= 2 ? 1 : 0;
      vote.cues += cues;
    }
  }
  std::ranges::stable_sort(votes, [](const Vote& a, const Vote& b) { return a.cues > b.cues; });
  std::vector<const LexiconKind*> kinds;
  for (const Vote& vote : votes) {
    // The second kind needs two thirds of the cues of the first.
    const bool often = vote.documents * 3 >= documents.size() && vote.documents > 0;
    const bool clear = vote.cues * 3 >= votes.front().cues * 2;
    if (often && clear && kinds.size() < kMostKinds) kinds.push_back(vote.kind);
  }
  if (kinds.empty()) kinds.push_back(&LexiconKinds().front());
  return kinds;
}

const LexiconEntry* FindEntry(std::span<const LexiconKind* const> kinds, std::string_view key) {
  for (const LexiconKind* kind : kinds) {
    const auto found = KeysOf(*kind).find(key);
    if (found != KeysOf(*kind).end()) return found->second;
  }
  return nullptr;
}

}  // namespace banyan
