#include "values/enum_match.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "values/value_text.h"

namespace banyan {
namespace {

std::string JoinedWords(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += word;
  return joined;
}

// Equal but for a simple plural or inflection in English, German or French: the longer word is the
// shorter one, of three letters at least, and s, es, e, n, en or x.
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

// The first place of `part` in `whole` from `from` on that no taken word spoils.
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

  // Whether `value` stands in `rest`; the words of all its places are emptied.
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

}  // namespace

ConvertedValue ConvertEnum(std::string_view raw, const ValueWish& wish) {
  return EnumMatcher(raw, wish).Match();
}

std::vector<std::string> DeniedValues(std::string_view text,
                                      const std::vector<std::string>& allowed) {
  constexpr size_t kReach = 3;  // words that a negation turns round
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
