#include "banyan/extract_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_row.h"
#include "tasks/score_rows.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace banyan {
namespace {

bool IsAsciiPunctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

std::string LowerCase(std::string_view text) {
  std::string lower;
  for (size_t at = 0; at < text.size();) {
    const Utf8Character character = ReadUtf8(text, at);
    AppendLowercase(character.valid ? character.code : U'\uFFFD', lower);
    at += std::max<size_t>(1, character.length);
  }
  return lower;
}

// The SQuAD rule.
std::string Normalized(std::string_view text) {
  std::string kept;
  for (const char c : LowerCase(text)) {
    if (!IsAsciiPunctuation(c)) kept += c;
  }
  std::string words, word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") {
      words += (words.empty() ? "" : " ") + word;
    }
    word.clear();
  };
  for (const char c : kept) {
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      end_word();
    } else {
      word += c;
    }
  }
  end_word();
  return words;
}

std::optional<double> AsNumber(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const bool all = !text.empty() && end == text.c_str() + text.size() && std::isfinite(number);
  return all ? std::optional(number) : std::nullopt;
}

std::string AsText(const Json& value) { return Normalized(TextOrJson(value)); }

bool SameScalar(const Json& a, const Json& b) {
  if (a.is_number() || b.is_number()) {
    const std::optional<double> x = AsNumber(a), y = AsNumber(b);
    if (x && y) return *x == *y;
  }
  return AsText(a) == AsText(b);
}

std::set<std::string> AsSet(const Json& list) {
  std::set<std::string> texts;
  for (const Json& value : list) texts.insert(AsText(value));
  return texts;
}

bool IsRight(const Json& value, const Json& gold) {
  if (value.is_array()) return gold.is_array() ? AsSet(value) == AsSet(gold) : false;
  if (!gold.is_array()) return SameScalar(value, gold);
  return std::ranges::any_of(gold, [&](const Json& one) { return SameScalar(value, one); });
}

bool IsNothing(const Json& gold) { return gold.is_null() || (gold.is_array() && gold.empty()); }

SlotOutcome Judge(const Json& value, const Json& gold) {
  if (IsNothing(gold)) {
    return value.is_null() ? SlotOutcome::kCorrectNull : SlotOutcome::kHallucinated;
  }
  if (value.is_null()) return SlotOutcome::kMissing;
  return IsRight(value, gold) ? SlotOutcome::kCorrect : SlotOutcome::kIncorrect;
}

// Rows by id: their own, or their line's number.
const Json& ValuesOf(const Json& row) {
  static const Json nothing = Json::object();
  const auto values = row.find("values");
  return values != row.end() && values->is_object() ? *values : nothing;
}

}  // namespace

const char* SlotOutcomeName(SlotOutcome outcome) {
  switch (outcome) {
    case SlotOutcome::kCorrect:
      return "correct";
    case SlotOutcome::kCorrectNull:
      return "correct null";
    case SlotOutcome::kIncorrect:
      return "incorrect";
    case SlotOutcome::kMissing:
      return "missing";
    case SlotOutcome::kHallucinated:
      return "hallucinated";
  }
  return "?";
}

void SlotCounts::Add(SlotOutcome outcome) {
  correct += outcome == SlotOutcome::kCorrect ? 1 : 0;
  correct_null += outcome == SlotOutcome::kCorrectNull ? 1 : 0;
  incorrect += outcome == SlotOutcome::kIncorrect ? 1 : 0;
  missing += outcome == SlotOutcome::kMissing ? 1 : 0;
  hallucinated += outcome == SlotOutcome::kHallucinated ? 1 : 0;
}

double SlotCounts::precision() const {
  const std::int64_t given = right() + hallucinated + incorrect;
  return given > 0 ? static_cast<double>(right()) / static_cast<double>(given) : 0.0;
}

double SlotCounts::recall() const {
  const std::int64_t wanted = right() + missing + incorrect;
  return wanted > 0 ? static_cast<double>(right()) / static_cast<double>(wanted) : 0.0;
}

double SlotCounts::f1() const {
  const double sum = precision() + recall();
  return sum > 0.0 ? 2.0 * precision() * recall() / sum : 0.0;
}

ExtractScores ScoreExtract(const ExtractScoreOptions& options) {
  const std::map<std::string, Json> gold_rows = RowsById(options.gold);
  const std::map<std::string, Json> output_rows = RowsById(options.output);
  ExtractScores scores;
  for (const auto& [id, gold] : gold_rows) {
    ++scores.documents;
    const auto found = output_rows.find(id);
    const bool has_row = found != output_rows.end() && !found->second.contains("error");
    if (!has_row) ++scores.without_row;
    const Json& right = ValuesOf(gold);
    const Json& given = has_row ? ValuesOf(found->second) : Json::object();
    std::set<std::string> attributes;
    for (const auto& [name, value] : right.items()) attributes.insert(name);
    for (const auto& [name, value] : given.items()) attributes.insert(name);
    const std::string category = gold.value("category", "");
    for (const std::string& attribute : attributes) {
      const bool labelled = right.contains(attribute);
      if (!labelled && !options.unlabelled_is_null) {
        ++scores.unlabelled;
        continue;
      }
      // Nothing was said of a document without a row: not even that there is no value.
      if (!has_row && IsNothing(labelled ? right.at(attribute) : Json())) continue;
      const SlotOutcome outcome = Judge(given.contains(attribute) ? given.at(attribute) : Json(),
                                        labelled ? right.at(attribute) : Json());
      scores.all.Add(outcome);
      scores.by_attribute[attribute].Add(outcome);
      if (!category.empty()) scores.by_category[category].Add(outcome);
      scores.slots[{id, attribute}] = outcome;
    }
  }
  return scores;
}

}  // namespace banyan
