// Scores as tables for people and as JSON for programs.
#include <fmt/format.h>

#include "banyan/extract_score.h"
#include "base/json.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string Line(const std::string& name, const SlotCounts& counts) {
  return fmt::format("| {} | {} | {:.4f} | {:.4f} | {:.4f} | {} | {} | {} | {} | {} |\n", name,
                     counts.slots(), counts.precision(), counts.recall(), counts.f1(),
                     counts.correct, counts.correct_null, counts.incorrect, counts.missing,
                     counts.hallucinated);
}

OrderedJson CountsJson(const SlotCounts& counts) {
  return {{"slots", counts.slots()},
          {"precision", counts.precision()},
          {"recall", counts.recall()},
          {"f1", counts.f1()},
          {"correct", counts.correct},
          {"correct_null", counts.correct_null},
          {"incorrect", counts.incorrect},
          {"missing", counts.missing},
          {"hallucinated", counts.hallucinated}};
}

bool IsRight(SlotOutcome outcome) {
  return outcome == SlotOutcome::kCorrect || outcome == SlotOutcome::kCorrectNull;
}

}  // namespace

std::string ScoreText(const ExtractScores& scores, const std::string& rule) {
  std::string text = fmt::format("{} documents ({} without a row); unlabelled slots: {}\n\n",
                                 scores.documents, scores.without_row, rule);
  text +=
      "| | slots | P | R | F1 | correct | correct null | incorrect | missing | hallucinated |\n";
  text += "|---|---|---|---|---|---|---|---|---|---|\n";
  text += Line("**all**", scores.all);
  for (const auto& [name, counts] : scores.by_category) text += Line("category " + name, counts);
  for (const auto& [name, counts] : scores.by_attribute) text += Line(name, counts);
  return text;
}

std::string CompareText(const ExtractScores& one, const ExtractScores& other) {
  std::string text = "\n| | F1 | F1 of the other | difference |\n|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const SlotCounts& a, const SlotCounts& b) {
    text +=
        fmt::format("| {} | {:.4f} | {:.4f} | {:+.4f} |\n", name, a.f1(), b.f1(), a.f1() - b.f1());
  };
  line("**all**", one.all, other.all);
  for (const auto& [name, counts] : one.by_attribute) {
    const auto found = other.by_attribute.find(name);
    if (found != other.by_attribute.end()) line(name, counts, found->second);
  }
  std::int64_t both = 0, only_one = 0, only_other = 0, neither = 0;
  for (const auto& [slot, outcome] : one.slots) {
    const auto found = other.slots.find(slot);
    if (found == other.slots.end()) continue;
    const bool a = IsRight(outcome), b = IsRight(found->second);
    ++(a ? (b ? both : only_one) : (b ? only_other : neither));
  }
  text += fmt::format(
      "\nslots of both: {} right in both, {} only here, {} only in the other, {} in "
      "neither\n",
      both, only_one, only_other, neither);
  return text;
}

std::string ScoreJson(const ExtractScores& scores, const std::string& rule) {
  OrderedJson json = {{"documents", scores.documents},
                      {"without_row", scores.without_row},
                      {"unlabelled", rule},
                      {"unlabelled_slots", scores.unlabelled},
                      {"all", CountsJson(scores.all)}};
  for (const auto& [name, counts] : scores.by_category)
    json["categories"][name] = CountsJson(counts);
  for (const auto& [name, counts] : scores.by_attribute)
    json["attributes"][name] = CountsJson(counts);
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace banyan
