// Names of attributes that documents of a kind often have, for documents that do not write labels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

// What an attribute's values look like.
enum class Expected {
  kAnything,
  kWords,  // never a list: names, addresses
  kList,
  kNumber,  // has a number
  kCount,   // has a number, and no unit of mass, volume or length
  kCode,    // has a digit; a text, though it may look like a number
  kDate,
  kMoney,  // a number alone or with a currency
  // A number with a unit:
  kMass,
  kVolume,
  kLength,
  kArea,
  kTime,
  kPower,
  kVoltage,
  kData,
  kEnergy,
};
bool LooksLike(Expected expected, std::string_view value);

struct LexiconEntry {
  std::string_view name;
  Expected expected = Expected::kAnything;
  std::string_view aliases = "";  // other labels of the attribute, with '|' between
  // Below 1: a more specific name is preferred for the same values.
  double weight = 1.0;
};

struct LexiconKind {
  std::string_view name;  // "invoice"
  std::string_view cues;  // words of such documents, folded, with '|' between
  std::span<const LexiconEntry> entries;
};

// The first kind is the fallback.
std::span<const LexiconKind> LexiconKinds();
const LexiconKind* FindLexiconKind(std::string_view name);

// The kinds of a set of documents: those with two or more cues in a third of the
// documents or more, the two most frequent at most. Without any, the first kind.
// `labels`: of each document, keys (LabelKey); one that an entry knows is a cue. [documents]
std::vector<const LexiconKind*> KindsOf(std::span<const std::string> documents,
                                        std::span<const std::vector<std::string>> labels);

// The entry that has `key` (LabelKey) as its name or alias, in these kinds; null: none.
const LexiconEntry* FindEntry(std::span<const LexiconKind* const> kinds, std::string_view key);

}  // namespace banyan
