#include "tasks/extract/extract_evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "values/unit_table.h"
#include "values/value_text.h"

namespace banyan {
namespace {

constexpr std::array<std::string_view, 5> kSigns = {"£", "€", "$", "¥", "%"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordByte(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool IsSpaceByte(char c) { return c == ' ' || c == '\t'; }

bool IsMoney(const Unit* unit) { return unit != nullptr && unit->dimension == Dimension::kMoney; }

// A sign with which the text begins or ends.
std::string_view SignAtBegin(std::string_view text) {
  for (const std::string_view sign : kSigns) {
    if (text.starts_with(sign)) return text.substr(0, sign.size());
  }
  return {};
}
std::string_view SignAtEnd(std::string_view text) {
  for (const std::string_view sign : kSigns) {
    if (text.ends_with(sign)) return text.substr(text.size() - sign.size());
  }
  return {};
}

// The sign or the word that the line goes on with after byte `at`.
std::string_view Following(std::string_view text, size_t at) {
  while (at < text.size() && IsSpaceByte(text[at])) ++at;
  const std::string_view rest = text.substr(at);
  if (const std::string_view sign = SignAtBegin(rest); !sign.empty()) return sign;
  size_t end = 0;
  while (end < rest.size() && IsWordByte(rest[end]) && !IsDigit(rest[end])) ++end;
  return rest.substr(0, end);
}

std::string_view Preceding(std::string_view text, size_t at) {
  while (at > 0 && IsSpaceByte(text[at - 1])) --at;
  const std::string_view rest = text.substr(0, at);
  if (const std::string_view sign = SignAtEnd(rest); !sign.empty()) return sign;
  size_t begin = at;
  while (begin > 0 && IsWordByte(rest[begin - 1]) && !IsDigit(rest[begin - 1])) --begin;
  return rest.substr(begin);
}

// The unit that a neighbour of a number surely is: "in", "a" and the like are words of sentences
// more often.
const Unit* SureUnit(std::string_view word) {
  if (word.empty() ||
      ListHasWord("in a an ans at min am pm no et ha on or so", FoldedText(std::string(word)))) {
    return nullptr;
  }
  const Unit* unit = FindUnit(word);
  const bool is_sign = !SignAtBegin(word).empty();
  return unit != nullptr && (is_sign || word.size() > 1) ? unit : nullptr;
}

// Calls `take` with the first and the last byte's place of the text where it stands in the document
// as a whole number, as long as it returns true.
template <typename Take>
void ForEachPlace(std::string_view document, std::string_view text, const Take& take) {
  for (size_t at = document.find(text); at != std::string_view::npos && !text.empty();
       at = document.find(text, at + 1)) {
    const size_t end = at + text.size();
    const auto goes_on = [&](size_t mark, size_t digit) {
      return mark < document.size() && digit < document.size() &&
             (document[mark] == '.' || document[mark] == ',') && IsDigit(document[digit]);
    };
    const bool inside = (at > 0 && IsDigit(document[at - 1])) ||
                        (at > 1 && goes_on(at - 1, at - 2)) ||
                        (end < document.size() && IsDigit(document[end])) || goes_on(end, end + 1);
    if (!inside && !take(at, end)) return;
  }
}

// "VAT rate", "Steuersatz", "discount in percent": a share, whatever its unit.
bool NamesShare(const ExtractAttribute& attribute) {
  if (const Unit* unit = attribute.unit.empty() ? nullptr : FindUnit(attribute.unit)) {
    return unit->dimension == Dimension::kShare;
  }
  const std::string name = FoldedText(attribute.name);
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  if (has("percent") || has("prozent") || has("pourcent") || has("porcentaje")) return true;
  const bool rate = has("rate") || has("satz") || has("taux");
  return rate && (has("tax") || has("vat") || has("steuer") || has("mwst") || has("tva") ||
                  has("interest") || has("zins"));
}

constexpr const char* kNumber = "0123456789.,' ";

// "EUR 111.72" and "111.72 EUR" are no shares.
std::string AgainstUnitsIn(const std::string& raw, const Unit& wanted) {
  const size_t begin = raw.find_first_of("0123456789");
  if (begin == std::string::npos) return "";
  const size_t end = std::min(raw.find_first_not_of(kNumber, begin), raw.size());
  const Unit* unit = SureUnit(Following(raw, end));
  if (unit == nullptr && IsMoney(SureUnit(Preceding(raw, begin)))) {
    unit = SureUnit(Preceding(raw, begin));
  }
  if (unit == nullptr || CanConvert(*unit, wanted)) return "";
  return fmt::format("'{}' is no {}", raw, DimensionName(wanted.dimension));
}

std::string AgainstNumber(const ExtractAttribute& attribute, const nlohmann::ordered_json& value,
                          const std::string& raw, std::string_view document) {
  const bool share = NamesShare(attribute);
  const Unit* wanted = share                    ? FindUnit("%")
                       : attribute.unit.empty() ? nullptr
                                                : FindUnit(attribute.unit);
  if (wanted == nullptr || !value.is_number()) return "";
  // What was copied with a unit was converted by it, if the attribute has one.
  if (raw.find_first_not_of(kNumber) != std::string::npos) {
    return attribute.unit.empty() ? AgainstUnitsIn(raw, *wanted) : "";
  }
  std::string against;
  bool somewhere = false, unopposed = false;
  ForEachPlace(document, raw, [&](size_t begin, size_t end) {
    somewhere = true;
    const std::string_view before = Preceding(document, begin), after = Following(document, end);
    const Unit* const follows = SureUnit(after);
    const Unit* precedes = SureUnit(before);
    if (!IsMoney(precedes)) precedes = nullptr;
    const auto fits = [&](const Unit* unit) {
      return unit != nullptr && CanConvert(*unit, *wanted);
    };
    const bool alone = follows == nullptr && precedes == nullptr;
    if (alone || fits(follows) || fits(precedes)) {
      unopposed = true;
      return false;
    }
    if (against.empty()) {
      against = fmt::format("'{}' stands beside '{}', which is no {}", raw,
                            follows != nullptr ? after : before,
                            share ? "share" : DimensionName(wanted->dimension));
    }
    return true;
  });
  if (somewhere && !unopposed) return against;
  constexpr double kWhole = 100.0;
  if (share && somewhere && value.get<double>() > kWhole) {
    bool beside = false;
    ForEachPlace(document, raw, [&](size_t, size_t end) {
      const Unit* const unit = SureUnit(Following(document, end));
      beside = unit != nullptr && unit->dimension == Dimension::kShare;
      return !beside;
    });
    if (!beside) return fmt::format("'{}' is more than 100 and no '%' stands beside it", raw);
  }
  return "";
}

// The currencies that the page names, by signs, codes and words.
std::vector<const Unit*> CurrenciesOf(std::string_view document) {
  std::vector<const Unit*> found;
  const auto add = [&](const Unit* unit) {
    if (IsMoney(unit) && std::ranges::find(found, unit) == found.end()) found.push_back(unit);
  };
  for (size_t at = 0; at < document.size();) {
    if (const std::string_view sign = SignAtBegin(document.substr(at)); !sign.empty()) {
      add(FindUnit(sign));
      at += sign.size();
      continue;
    }
    size_t end = at;
    while (end < document.size() && IsWordByte(document[end]) && !IsDigit(document[end]) &&
           SignAtBegin(document.substr(end)).empty()) {
      ++end;
    }
    const std::string_view word = document.substr(at, end - at);
    if (word.size() > 1) {
      add(FindUnit(word));
      // Alone they are masses first.
      if (ListHasWord("pound pounds quid sterling", FoldedText(std::string(word)))) {
        add(FindUnit("GBP"));
      }
    }
    at = std::max(end, at + 1);
  }
  return found;
}

std::string AgainstCurrency(const std::vector<std::string>& allowed, const std::string& value,
                            std::string_view document) {
  const auto is_currency = [](const std::string& one) { return IsMoney(FindUnit(one)); };
  if (!std::ranges::all_of(allowed, is_currency) || !is_currency(value)) return "";
  const Unit& chosen = *FindUnit(value);
  const std::vector<const Unit*> found = CurrenciesOf(document);
  if (found.empty()) return "the text names no currency";
  for (const Unit* unit : found) {
    if (CanConvert(*unit, chosen) || CanConvert(chosen, *unit)) return "";
  }
  return fmt::format("the text names {}, not {}", found.front()->symbol, value);
}

// A part that was paid is not the whole: "paid in full" beside "deposit received".
std::string AgainstPaid(const ExtractAttribute& attribute, std::string_view document) {
  const std::string name = FoldedText(attribute.name + " " + attribute.description);
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  const bool whole = has(name, "full") || has(name, "whole") || has(name, "vollstandig") ||
                     has(name, "settled") || has(name, "completely");
  const bool paid = has(name, "paid") || has(name, "payment") || has(name, "bezahlt") ||
                    has(name, "settled") || has(name, "payee");
  if (!whole || !paid) return "";
  const std::string text = FoldedText(std::string(document));
  constexpr std::array<std::string_view, 4> kWhole = {"paid in full", "in full", "fully paid",
                                                      "nothing due"};
  for (const std::string_view words : kWhole) {
    if (has(text, words)) return "";
  }
  constexpr std::array<std::string_view, 9> kPart = {"deposit",     "down payment", "part payment",
                                                     "instalment",  "installment",  "balance due",
                                                     "outstanding", "anzahlung",    "acompte"};
  for (const std::string_view words : kPart) {
    if (has(text, words)) return fmt::format("the text speaks of '{}' and of nothing whole", words);
  }
  return "";
}

}  // namespace

std::string EvidenceAgainst(const ExtractAttribute& attribute, const nlohmann::ordered_json& value,
                            const nlohmann::ordered_json& raw, std::string_view document) {
  switch (attribute.kind) {
    case ValueKind::kNumber:
    case ValueKind::kInteger:
      return raw.is_string()
                 ? AgainstNumber(attribute, value, raw.get_ref<const std::string&>(), document)
                 : "";
    case ValueKind::kEnum:
      return value.is_string()
                 ? AgainstCurrency(attribute.allowed, value.get_ref<const std::string&>(), document)
                 : "";
    case ValueKind::kBoolean:
      return value == true ? AgainstPaid(attribute, document) : "";
    default:
      return "";
  }
}

}  // namespace banyan
