// Scores of extracted values as tables for people and as JSON for programs, and the speed that a
// receipt has.
#include <fmt/format.h>
#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "program/score.h"

namespace banyan {

namespace {

std::string CountsLine(const std::string& name, const SlotCounts& counts) {
  return fmt::format("| {} | {} | {:.4f} | {:.4f} | {:.4f} | {} | {} | {} | {} | {} |\n", name,
                     counts.slots(), counts.strict_f1(), counts.partial_f1(), counts.f1(),
                     counts.correct, counts.correct_null, counts.incorrect, counts.missing,
                     counts.hallucinated);
}

std::string WithInterval(double score, const ScoreInterval* interval) {
  if (interval == nullptr) return fmt::format("{:.4f}", score);
  return fmt::format("{:.4f} ({:.3f} to {:.3f})", score, interval->low, interval->high);
}

// A row of the table of runs, without its speed.
std::string RunCells(const SlotCounts& all, const SlotCounts& labelled,
                     const ScoreIntervals* intervals) {
  return fmt::format("{} | {:.4f} | {:.4f} | {} | {} | {:.4f} | {:.4f} |",
                     WithInterval(all.strict_f1(), intervals ? &intervals->strict_f1 : nullptr),
                     all.strict_precision(), all.strict_recall(),
                     WithInterval(all.partial_f1(), intervals ? &intervals->partial_f1 : nullptr),
                     WithInterval(labelled.f1(), intervals ? &intervals->labelled_f1 : nullptr),
                     all.f1(), all.accuracy());
}

std::string SpeedCell(const std::optional<double>& documents_per_second) {
  return documents_per_second ? fmt::format(" {:.4g} |", *documents_per_second) : " |";
}

bool IsRightOutcome(SlotOutcome outcome) {
  return outcome == SlotOutcome::kCorrect || outcome == SlotOutcome::kCorrectNull;
}

struct SharedSlots {
  std::int64_t both = 0, only_one = 0, only_other = 0, neither = 0;
};

SharedSlots CountShared(const ExtractScores& one, const ExtractScores& other) {
  SharedSlots shared;
  for (const auto& [slot, outcome] : one.slots) {
    const auto found = other.slots.find(slot);
    if (found == other.slots.end()) continue;
    const bool a = IsRightOutcome(outcome), b = IsRightOutcome(found->second);
    ++(a ? (b ? shared.both : shared.only_one) : (b ? shared.only_other : shared.neither));
  }
  return shared;
}

std::string DifferencesText(const std::vector<ScoredRun>& runs, int resamples) {
  const ScoredRun& first = runs.front();
  std::string text = fmt::format(
      "\n| against {} | difference in strict F1 | right in both | only here | only there | in "
      "neither "
      "|\n|---|---|---|---|---|---|\n",
      first.name);
  for (size_t i = 1; i < runs.size(); ++i) {
    const ExtractScores& scores = runs[i].scores;
    const SharedSlots shared = CountShared(scores, first.scores);
    std::string difference =
        fmt::format("{:+.4f}", scores.all.strict_f1() - first.scores.all.strict_f1());
    if (resamples > 0) {
      const ScoreInterval interval =
          BootstrapDifference(scores.by_document, first.scores.by_document, resamples);
      difference += fmt::format(" ({:+.3f} to {:+.3f})", interval.low, interval.high);
    }
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", runs[i].name, difference, shared.both,
                        shared.only_one, shared.only_other, shared.neither);
  }
  return text;
}

}  // namespace

std::string RunsText(const std::vector<ScoredRun>& runs, const ScoreTableOptions& options) {
  const ExtractScores& first = runs.front().scores;
  std::string text =
      fmt::format("{} documents; unlabelled slots: {}", first.documents, options.rule);
  for (const ScoredRun& run : runs) {
    if (run.scores.without_row == 0) continue;
    text += fmt::format("; {} without a row{}", run.scores.without_row,
                        runs.size() > 1 ? " in " + run.name : "");
  }
  if (options.resamples > 0) {
    text += fmt::format("; in brackets: 95 % of {} resamples of the documents", options.resamples);
  }
  const bool timed = std::ranges::any_of(
      runs, [](const ScoredRun& run) { return run.scores.documents_per_second.has_value(); });
  text += "\n\n| run | strict F1 | P | R | partial F1 | labelled F1 | F1 with nulls | accuracy |";
  text += timed ? " documents/s |\n" : "\n";
  text += "|---|---|---|---|---|---|---|---|";
  text += timed ? "---|\n" : "\n";
  for (const ScoredRun& run : runs) {
    ScoreIntervals intervals;
    if (options.resamples > 0) {
      intervals = BootstrapIntervals(run.scores.by_document, options.resamples);
    }
    text += fmt::format("| {} | {}", run.name,
                        RunCells(run.scores.all, run.scores.labelled,
                                 options.resamples > 0 ? &intervals : nullptr));
    text += timed ? SpeedCell(run.scores.documents_per_second) + "\n" : "\n";
  }
  text += "| null everywhere | " + RunCells(first.all_null, first.all_null_labelled, nullptr);
  text += timed ? SpeedCell({}) + "\n" : "\n";
  return runs.size() > 1 ? text + DifferencesText(runs, options.resamples) : text;
}

std::string DetailText(const ExtractScores& scores) {
  std::string text =
      "\n| | slots | strict F1 | partial F1 | F1 with nulls | correct | correct null | incorrect | "
      "missing | hallucinated |\n|---|---|---|---|---|---|---|---|---|---|\n";
  text += CountsLine("**all**", scores.all);
  for (const auto& [name, counts] : scores.by_type) text += CountsLine("type " + name, counts);
  for (const auto& [name, counts] : scores.by_category) {
    text += CountsLine("category " + name, counts);
  }
  for (const auto& [name, counts] : scores.by_attribute) text += CountsLine(name, counts);
  return text;
}

std::string CompareText(const ExtractScores& one, const ExtractScores& other) {
  std::string text =
      "\n| | strict F1 | of the other | difference | F1 with nulls | of the other | difference |\n"
      "|---|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const SlotCounts& a, const SlotCounts& b) {
    text += fmt::format("| {} | {:.4f} | {:.4f} | {:+.4f} | {:.4f} | {:.4f} | {:+.4f} |\n", name,
                        a.strict_f1(), b.strict_f1(), a.strict_f1() - b.strict_f1(), a.f1(), b.f1(),
                        a.f1() - b.f1());
  };
  line("**all**", one.all, other.all);
  for (const auto& [name, counts] : one.by_attribute) {
    const auto found = other.by_attribute.find(name);
    if (found != other.by_attribute.end()) line(name, counts, found->second);
  }
  const SharedSlots shared = CountShared(one, other);
  text += fmt::format(
      "\nslots of both: {} right in both, {} only here, {} only in the other, {} in neither\n",
      shared.both, shared.only_one, shared.only_other, shared.neither);
  return text;
}

// Scores as JSON for programs, and the speed that a receipt has.

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostReceiptBytes = 1u << 20;

OrderedJson CountsJson(const SlotCounts& counts) {
  return {{"slots", counts.slots()},
          {"strict_precision", counts.strict_precision()},
          {"strict_recall", counts.strict_recall()},
          {"strict_f1", counts.strict_f1()},
          {"partial_f1", counts.partial_f1()},
          {"precision", counts.precision()},
          {"recall", counts.recall()},
          {"f1", counts.f1()},
          {"accuracy", counts.accuracy()},
          {"correct", counts.correct},
          {"correct_null", counts.correct_null},
          {"incorrect", counts.incorrect},
          {"missing", counts.missing},
          {"hallucinated", counts.hallucinated}};
}

OrderedJson IntervalJson(const ScoreInterval& interval) {
  return OrderedJson::array({interval.low, interval.high});
}

OrderedJson CalibrationJson(const Reliability& calibration) {
  OrderedJson json = {{"values", calibration.count},
                      {"expected_error", calibration.expected_error},
                      {"brier", calibration.brier},
                      {"bins", OrderedJson::array()}};
  for (const ReliabilityBin& bin : calibration.bins) {
    json["bins"].push_back({{"values", bin.count},
                            {"low", bin.low},
                            {"high", bin.high},
                            {"confidence", bin.confidence},
                            {"right", bin.accuracy}});
  }
  return json;
}

OrderedJson ScoresJson(const ExtractScores& scores, const ScoreTableOptions& options) {
  OrderedJson json = {{"documents", scores.documents},
                      {"without_row", scores.without_row},
                      {"unlabelled", options.rule},
                      {"unlabelled_slots", scores.unlabelled},
                      {"all", CountsJson(scores.all)},
                      {"labelled", CountsJson(scores.labelled)},
                      {"all_null", CountsJson(scores.all_null)},
                      {"all_null_labelled", CountsJson(scores.all_null_labelled)}};
  if (options.resamples > 0) {
    const ScoreIntervals intervals = BootstrapIntervals(scores.by_document, options.resamples);
    json["intervals"] = {{"resamples", options.resamples},
                         {"strict_f1", IntervalJson(intervals.strict_f1)},
                         {"partial_f1", IntervalJson(intervals.partial_f1)},
                         {"labelled_f1", IntervalJson(intervals.labelled_f1)},
                         {"f1", IntervalJson(intervals.f1)},
                         {"accuracy", IntervalJson(intervals.accuracy)}};
  }
  if (scores.documents_per_second) json["documents_per_second"] = *scores.documents_per_second;
  if (!scores.confidences.empty()) {
    json["calibration"] = CalibrationJson(Calibrate(scores.confidences));
  }
  for (const auto& [name, counts] : scores.by_type) json["types"][name] = CountsJson(counts);
  for (const auto& [name, counts] : scores.by_category) {
    json["categories"][name] = CountsJson(counts);
  }
  for (const auto& [name, counts] : scores.by_attribute) {
    json["attributes"][name] = CountsJson(counts);
  }
  return json;
}

// OUTPUT.receipt.json, or with the output's own ending left out.
std::string ReceiptBeside(const std::string& output) {
  std::filesystem::path bare(output);
  for (const std::string& name :
       {output + ".receipt.json", bare.replace_extension(".receipt.json").string()}) {
    std::error_code none;
    if (std::filesystem::is_regular_file(name, none)) return name;
  }
  return "";
}

}  // namespace

std::string ScoreJson(const ExtractScores& scores, const ScoreTableOptions& options) {
  return DumpJson(ScoresJson(scores, options));
}

std::string RunsJson(const std::vector<ScoredRun>& runs, const ScoreTableOptions& options) {
  OrderedJson json = {{"runs", OrderedJson::array()}};
  for (const ScoredRun& run : runs) {
    OrderedJson row = {{"name", run.name}};
    row.update(ScoresJson(run.scores, options));
    if (&run != &runs.front()) {
      const ExtractScores& first = runs.front().scores;
      row["strict_f1_difference"] = run.scores.all.strict_f1() - first.all.strict_f1();
      if (options.resamples > 0) {
        row["strict_f1_difference_interval"] = IntervalJson(
            BootstrapDifference(run.scores.by_document, first.by_document, options.resamples));
      }
    }
    json["runs"].push_back(std::move(row));
  }
  return DumpJson(json);
}

std::optional<double> SpeedFromReceipt(const std::string& output) {
  const std::string file = ReceiptBeside(output);
  if (file.empty()) return std::nullopt;
  const Json receipt = ParseJson(ReadTextFile(file, kMostReceiptBytes), file);
  const Json rows = receipt.is_object() ? receipt.value("rows_this_run", Json()) : Json();
  const Json seconds = receipt.is_object() ? receipt.value("seconds", Json()) : Json();
  const Json total = seconds.is_object() ? seconds.value("total", Json()) : Json();
  if (!rows.is_number_integer() || !total.is_number()) {
    Throw(ErrorKind::kFormat, "{}: expected a receipt with 'rows_this_run' and 'seconds.total'",
          file);
  }
  if (rows.get<std::int64_t>() <= 0 || !(total.get<double>() > 0.0)) return std::nullopt;
  return static_cast<double>(rows.get<std::int64_t>()) / total.get<double>();
}

}  // namespace banyan
