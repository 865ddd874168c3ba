#include "values/boolean.h"

#include <optional>
#include <string>
#include <vector>

#include "values/value_text.h"

namespace banyan {
namespace {

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
// They make a statement neither yes nor no.
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

// nonrefundable, unavailable … are one word; those with a hyphen are two already.
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
        // "ne … pas", "no, not" say no once; "not without" says it twice.
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

}  // namespace

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

}  // namespace banyan
