// Scores as JSON for programs, and the speed that a receipt has.
#include <filesystem>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "program/extract_score.h"

namespace banyan {
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
