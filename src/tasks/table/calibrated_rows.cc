#include "tasks/table/calibrated_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "tasks/output/row_format.h"
#include "tasks/table/row_labels.h"
#include "tasks/table/share_calibration.h"
#include "tasks/table/table_finish.h"

namespace banyan {
namespace {

constexpr size_t kFewestLabelled = 20, kFolds = 5;

std::vector<double> SharesOf(const TableAskOptions& table, const nlohmann::ordered_json& row) {
  if (table.op != TableOperator::kFilter) {
    return row.at("probabilities").get<std::vector<double>>();
  }
  const auto yes = row.at("probability").get<double>();
  return {yes, 1.0 - yes};
}

// Of the option whose probability is told: of a filter "yes", otherwise the likeliest.
SaidProbability SaidOf(const TableAskOptions& table, const LabelledShares& row,
                       const std::vector<double>& shares) {
  const size_t option =
      table.op == TableOperator::kFilter
          ? 0
          : static_cast<size_t>(std::ranges::max_element(shares) - shares.begin());
  return {shares[option], row.label == option};
}

std::string ErrorsOf(const TableAskOptions& table, const std::vector<LabelledShares>& labelled,
                     bool with_offset) {
  std::vector<SaidProbability> before, after;
  for (size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<LabelledShares> others;
    for (size_t i = 0; i < labelled.size(); ++i) {
      if (i % kFolds != fold) others.push_back(labelled[i]);
    }
    const ShareCalibration calibration = ShareCalibration::Fit(others, with_offset);
    for (size_t i = fold; i < labelled.size(); i += kFolds) {
      before.push_back(SaidOf(table, labelled[i], labelled[i].shares));
      after.push_back(SaidOf(table, labelled[i], calibration.Of(labelled[i].shares)));
    }
  }
  return fmt::format(
      "calibration error {:.3f} before and {:.3f} after, of rows that it had not seen",
      CalibrationError(before), CalibrationError(after));
}

}  // namespace

void WriteCalibrated(const TableAskOptions& table, const std::string& rows_file,
                     const JobOptions& job, JobReceipt& receipt) {
  using OrderedJson = nlohmann::ordered_json;
  const bool filters = table.op == TableOperator::kFilter;
  std::vector<LabelledShares> labelled;
  size_t number = 0, of_first = 0;
  ForEachRow(rows_file, [&](const OrderedJson& row, std::int64_t) {
    const size_t place = number++;
    if (row.contains("error")) return;
    const std::optional<size_t> label = LabelOfRow(table, row, place);
    if (!label) return;
    of_first += *label == 0 ? 1 : 0;
    labelled.push_back({SharesOf(table, row), *label});
  });
  if (labelled.size() < kFewestLabelled ||
      (filters && (of_first == 0 || of_first == labelled.size()))) {
    Throw(ErrorKind::kInput, "--label {}: expected {} labelled rows or more{}, found {}{}",
          table.label, kFewestLabelled, filters ? ", true and false ones" : "", labelled.size(),
          filters ? fmt::format(", of which {} are true", of_first) : "");
  }
  const ShareCalibration calibration = ShareCalibration::Fit(labelled, filters);
  receipt.calibration =
      fmt::format("by {} labelled rows: log-odds times {:.3f}{}; {}", labelled.size(),
                  calibration.scale, filters ? fmt::format(" {:+.3f}", calibration.offset) : "",
                  ErrorsOf(table, labelled, filters));
  FinishedRows finished(job);
  std::int64_t errors = 0, dropped = 0;
  ForEachRow(rows_file, [&](OrderedJson row, std::int64_t) {
    if (row.contains("error")) {
      ++errors;
      return finished.Write(std::move(row));
    }
    const std::vector<double> of = calibration.Of(SharesOf(table, row));
    OrderedJson calibrated = OrderedJson::array();
    for (const double one : of) calibrated.push_back(OrderedJson(RowProbability(one)));
    const bool keep = !filters || of.front() >= table.threshold;
    if (!keep && !table.all) {
      ++dropped;
      return;
    }
    OrderedJson written;
    for (auto& [name, value] : row.items()) {
      if (name == "keep") {
        if (table.all) written["keep"] = keep;
        continue;
      }
      written[name] = std::move(value);
      if (name == "probability") written["calibrated"] = calibrated.front();
      if (name == "probabilities" && !filters) written["calibrated"] = calibrated;
    }
    finished.Write(std::move(written));
  });
  receipt.rows = receipt.rows_this_run = finished.Finish();
  receipt.error_rows = receipt.error_rows_this_run = errors;
  receipt.dropped = dropped;
}

}  // namespace banyan
