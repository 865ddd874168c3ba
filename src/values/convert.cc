// Dispatch by type; booleans and enums are converted here.
#include "values/convert.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "values/convert_number.h"
#include "values/date.h"
#include "values/value_text.h"

namespace banyan {
namespace {

// Booleans.

constexpr std::string_view kYesWords =
    "yes yep yeah true on included includes including incl inclusive available allowed permitted "
    "enabled possible provided present accepted welcome supported required confirmed "
    "ja jawohl wahr inklusive inkl inbegriffen enthalten enthalt verfugbar vorhanden erlaubt "
    "gestattet moglich zulassig willkommen aktiviert erforderlich zutreffend "
    "oui vrai inclus incluse inclues incluses compris comprise disponible disponibles autorise "
    "autorisee autorises autorisees permis permise accepte acceptee acceptes acceptees admis "
    "admise "
    "admises possible present presente bienvenus "
    "✓ ✔ ☑ ✅";
constexpr std::string_view kNoWords =
    "nope false off none excluded excludes excluding excl exclusive unavailable forbidden "
    "prohibited "
    "disabled impossible absent missing denied unsupported disallowed "
    "nein falsch exklusive exkl ausgeschlossen verboten untersagt unmoglich fehlt deaktiviert "
    "unzulassig "
    "faux exclu exclue exclus exclues interdit interdite interdits interdites indisponible "
    "impossible "
    "refuse absente "
    "✗ ✘ ✕ ✖ ❌ ❎ ☐ ☒";
// A statement with one of these says neither yes nor no.
constexpr std::string_view kDoubtWords =
    "maybe perhaps request anfrage demande vielleicht eventuell peut partly partially partial "
    "teilweise "
    "partiellement optional optionally optionnel optionnelle depends depending unknown unbekannt "
    "inconnu "
    "some sometimes manchmal parfois only nur seulement uniquement if wenn falls si unless unclear "
    "limited begrenzt limite surcharge aufpreis supplement problem probleme sure sicher doubt";

enum class Polarity { kYes, kNo, kNegation, kOther };

Polarity PolarityOf(const std::string& word) {
  if (IsNegation(word)) return Polarity::kNegation;
  if (ListHasWord(kYesWords, word)) return Polarity::kYes;
  if (ListHasWord(kNoWords, word)) return Polarity::kNo;
  return Polarity::kOther;
}

struct Verdict {
  bool yes = false;
  bool no = false;
  bool double_negation = false;
};

Verdict Judge(const std::vector<std::string>& words) {
  constexpr size_t kReach = 3;  // words that a negation reaches
  Verdict verdict;
  size_t negated_until = 0;  // words before this index are negated
  for (size_t i = 0; i < words.size(); ++i) {
    const bool negated = i < negated_until;
    switch (PolarityOf(words[i])) {
      case Polarity::kNegation:
        // "ne … pas" and "no, not" negate once; "not without" negates twice.
        verdict.double_negation |= negated && words[i] != "pas" && words[i - 1] != "no";
        verdict.no = true;
        negated_until = i + 1 + kReach;
        break;
      case Polarity::kYes:
        if (!negated) verdict.yes = true;
        break;
      case Polarity::kNo:
        verdict.no = true;
        verdict.double_negation |= negated && words[0] != "no";
        break;
      case Polarity::kOther:
        break;
    }
  }
  return verdict;
}

ConvertedValue ConvertBoolean(std::string_view raw) {
  constexpr size_t kMostWords = 12;
  const auto refuse = [&](const std::string& problem) -> ConvertedValue {
    return {nullptr, "", QuotedMention(raw) + " " + problem};
  };
  const std::vector<std::string> words = FoldedWords(raw);
  if (words.size() == 1 && words[0].size() == 1) {  // alone: n/a is not "no"
    if (ListHasWord("1 x y j", words[0])) return {true, "", ""};
    if (ListHasWord("0 n", words[0])) return {false, "", ""};
  }
  if (words.empty() || words.size() > kMostWords) return refuse("does not say yes or no");
  for (const std::string& word : words) {
    if (ListHasWord(kDoubtWords, word)) return refuse("says neither yes nor no for certain");
  }
  const Verdict verdict = Judge(words);
  if (verdict.double_negation) return refuse("denies twice");
  if (verdict.yes && verdict.no) return refuse("says both yes and no");
  if (!verdict.yes && !verdict.no) return refuse("does not say yes or no");
  return {verdict.yes, "", ""};
}

// Enums.

std::string JoinedWords(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += word;
  return joined;
}

// Equal except for a simple plural or inflection in English, German or French: the longer word is
// the shorter one, of three letters at least, and s, es, e, n, en or x.
bool SameButPlural(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  if (a == b) return true;
  if (a.size() < 3) return false;
  if (a.ends_with('y') && b.ends_with("ies")) {
    return a.substr(0, a.size() - 1) == b.substr(0, b.size() - 3);
  }
  return b.starts_with(a) && ListHasWord("s es e n en x", b.substr(a.size()));
}

using Words = std::vector<std::string>;

bool SameWordsButPlural(const Words& a, const Words& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameButPlural);
}

// The first index at or after `from` where `whole` contains `part`.
std::optional<size_t> FindWords(const Words& whole, const Words& part, size_t from) {
  for (size_t at = from; at + part.size() <= whole.size(); ++at) {
    if (std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(at),
                   SameButPlural)) {
      return at;
    }
  }
  return std::nullopt;
}

struct EnumMention {
  std::string plain;
  std::vector<std::string> words;
};

EnumMention MentionOf(std::string_view text) { return {PlainText(text), FoldedWords(text)}; }

// Signs without letters and digits ("+", "€") have no words to compare.
bool SameFolded(const EnumMention& a, const EnumMention& b) {
  if (a.words.empty() || b.words.empty()) return a.plain == b.plain;
  return a.words == b.words;
}

bool HasNegation(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), IsNegation);
}

class EnumMatcher {
 public:
  EnumMatcher(std::string_view raw, const ValueWish& wish) : raw_(raw), mention_(MentionOf(raw)) {
    for (const std::string& value : wish.allowed) {
      allowed_.push_back(MentionOf(value));
      values_.push_back(&value);
    }
  }

  ConvertedValue Match() const {
    using Same = std::function<bool(const EnumMention&)>;
    const std::string joined = JoinedWords(mention_.words);
    const Same rules[] = {
        [&](const EnumMention& a) { return a.plain == mention_.plain; },
        [&](const EnumMention& a) { return SameFolded(a, mention_); },
        [&](const EnumMention& a) { return !joined.empty() && JoinedWords(a.words) == joined; },
        [&](const EnumMention& a) {
          return !joined.empty() && SameWordsButPlural(a.words, mention_.words);
        },
    };
    for (const Same& same : rules) {
      std::vector<size_t> matches;
      for (size_t i = 0; i < allowed_.size(); ++i) {
        if (same(allowed_[i])) matches.push_back(i);
      }
      if (!matches.empty()) return Decide(matches);
    }
    return Contained();
  }

 private:
  ConvertedValue Refuse(const std::string& problem) const {
    return {nullptr, "", QuotedMention(raw_) + " " + problem};
  }

  ConvertedValue Decide(const std::vector<size_t>& matches) const {
    const std::string& first = *values_[matches[0]];
    for (const size_t i : matches) {
      if (*values_[i] == first) continue;
      return Refuse("fits both " + QuotedMention(first) + " and " + QuotedMention(*values_[i]));
    }
    return {first, "", ""};
  }

  // Allowed values within the mention; if there is none, the mention within allowed values.
  ConvertedValue Contained() const {
    Words rest = mention_.words;
    std::vector<size_t> inside;
    for (const size_t i : LongestFirst()) {
      const bool twin = std::any_of(inside.begin(), inside.end(), [&](size_t other) {
        return SameWordsButPlural(allowed_[other].words, allowed_[i].words);
      });
      if (twin || Take(allowed_[i].words, rest)) inside.push_back(i);
    }
    if (!inside.empty()) {
      // "not green": the mention excludes what it names.
      if (HasNegation(mention_.words) != HasNegation(allowed_[inside[0]].words)) {
        return Refuse("denies " + QuotedMention(*values_[inside[0]]));
      }
      return Decide(inside);
    }
    if (mention_.plain.size() >= 3 && !mention_.words.empty() && !HasNegation(mention_.words)) {
      std::vector<size_t> around;
      for (size_t i = 0; i < allowed_.size(); ++i) {
        if (HasNegation(allowed_[i].words)) continue;
        if (FindWords(allowed_[i].words, mention_.words, 0)) around.push_back(i);
      }
      if (!around.empty()) return Decide(around);
    }
    return Refuse("is none of the allowed values");
  }

  // Longer values first, so that "dark green" is not taken for "green".
  std::vector<size_t> LongestFirst() const {
    std::vector<size_t> order(allowed_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return allowed_[a].words.size() > allowed_[b].words.size();
    });
    return order;
  }

  // Whether `rest` contains `value`; clears the words of all its occurrences.
  static bool Take(const Words& value, Words& rest) {
    if (value.empty()) return false;
    std::optional<size_t> at = FindWords(rest, value, 0);
    const bool found = at.has_value();
    for (; at; at = FindWords(rest, value, *at + 1)) {
      for (size_t i = 0; i < value.size(); ++i) rest[*at + i].clear();
    }
    return found;
  }

  std::string_view raw_;
  EnumMention mention_;
  std::vector<EnumMention> allowed_;
  std::vector<const std::string*> values_;
};

ConvertedValue ConvertEnum(std::string_view raw, const ValueWish& wish) {
  return EnumMatcher(raw, wish).Match();
}

}  // namespace

ConvertedValue ConvertValue(std::string_view raw, const ValueWish& wish) {
  if (wish.type != ValueType::kText && raw.size() > kMaxMentionBytes) {
    return {nullptr, "", QuotedMention(raw) + " is too long for a value"};
  }
  const bool sign = wish.type == ValueType::kEnum || wish.type == ValueType::kText;
  if (PlainText(raw).empty() && !sign) return {nullptr, "", "the text is empty"};
  switch (wish.type) {
    case ValueType::kText: {
      const std::string text = PlainText(raw);
      if (text.empty()) return {nullptr, "", "the text is empty"};
      return {text, "", ""};
    }
    case ValueType::kNumber:
    case ValueType::kInteger:
      return ConvertNumber(raw, wish);
    case ValueType::kBoolean:
      return ConvertBoolean(raw);
    case ValueType::kDate:
      return ConvertDate(raw, wish);
    case ValueType::kEnum:
      return ConvertEnum(raw, wish);
  }
  return {nullptr, "", "no such type"};
}

std::vector<std::string> DeniedValues(std::string_view text,
                                      const std::vector<std::string>& allowed) {
  constexpr size_t kReach = 3;  // words that a negation negates
  std::vector<Words> clauses;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find_first_of(".,;:!?\n()", begin), text.size());
    if (end > begin) clauses.push_back(FoldedWords(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  std::vector<std::string> denied;
  for (const std::string& value : allowed) {
    const Words words = FoldedWords(value);
    if (words.empty() || HasNegation(words)) continue;
    size_t mentions = 0, denials = 0;
    for (const Words& clause : clauses) {
      for (std::optional<size_t> at = FindWords(clause, words, 0); at;
           at = FindWords(clause, words, *at + 1)) {
        ++mentions;
        const auto place = clause.begin() + static_cast<std::ptrdiff_t>(*at);
        denials += std::any_of(place - static_cast<std::ptrdiff_t>(std::min(*at, kReach)), place,
                               IsNegation);
      }
    }
    if (mentions > 0 && denials == mentions) denied.push_back(value);
  }
  return denied;
}

}  // namespace banyan
