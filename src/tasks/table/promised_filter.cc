// A filter by two models, in passes that are each a resumable job: the small model judges every
// row, the large one the sample; the sample says where the small one is sure; the large one judges
// the rest; and the output is written from both.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/table.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/output/journal.h"
#include "tasks/table/filter_promise.h"
#include "tasks/table/row_labels.h"
#include "tasks/table/table_finish.h"
#include "tasks/table/table_run.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// What the small model says of a row, and what its label says; by InputRow::index.
struct SmallRow {
  bool error = false;
  double probability = 0.0;
  std::optional<bool> label;
  std::string id;
};

class PromisedFilter {
 public:
  PromisedFilter(const TableAskOptions& table, const JobOptions& job)
      : table_(table), job_(job), judging_(table) {
    judging_.all = true;
  }

  JobReceipt Run(const std::shared_ptr<Model>& small, const std::shared_ptr<Model>& large,
                 const EngineOptions& engine) {
    const JobReceipt of_small = RunTableRows(small, engine, judging_, small_file_.JobOf(job_), {});
    if (of_small.end != JobEnd::kComplete) return Named(of_small);
    ReadSmall();
    ChooseSample();
    const auto in_sample = [this](std::int64_t index) { return sampled_[Place(index)]; };
    JobReceipt of_sample =
        RunTableRows(large, engine, judging_, large_file_.JobOf(job_), {in_sample, true});
    AddPass(of_small, of_sample);
    of_sample.weight_bytes += of_small.weight_bytes;
    if (of_sample.end != JobEnd::kComplete) return Named(of_sample);
    ReadLarge();
    ChooseThresholds();
    const auto is_asked = [this](std::int64_t index) {
      const SmallRow& row = rows_[Place(index)];
      return sampled_[Place(index)] ||
             (!row.error && VerdictOf(band_, row.probability) == BandVerdict::kAskLarge);
    };
    JobOptions rest = large_file_.JobOf(job_);
    rest.resume = true;
    rest.overwrite = false;
    JobReceipt receipt = RunTableRows(large, engine, judging_, rest, {is_asked, false});
    AddPass(of_sample, receipt);
    receipt.weight_bytes += of_small.weight_bytes;
    if (receipt.end != JobEnd::kComplete) return Named(receipt);
    ReadLarge();
    Write(receipt);
    return Named(receipt);
  }

 private:
  static size_t Place(std::int64_t index) { return static_cast<size_t>(index); }

  JobReceipt Named(JobReceipt receipt) const {
    receipt.output = job_.output;
    receipt.finished_before = false;
    return receipt;
  }

  void ReadSmall() {
    ForEachRow(small_file_.path(), [this](const OrderedJson& row, std::int64_t) {
      SmallRow small;
      small.id = row.at("id").dump();
      small.error = row.contains("error");
      if (!small.error) small.probability = row.at("probability").get<double>();
      if (!small.error && !table_.label.empty()) {
        const std::optional<size_t> label = LabelOfRow(table_, row, rows_.size());
        if (label) small.label = *label == 0;
      }
      rows_.push_back(std::move(small));
    });
  }

  // Labelled rows; or some at random, in the order of a hash of their ids, which is no order that a
  // table has.
  void ChooseSample() {
    std::vector<std::pair<Key128, size_t>> places;
    for (size_t i = 0; i < rows_.size(); ++i) {
      const bool may = table_.label.empty() ? !rows_[i].error : rows_[i].label.has_value();
      if (may) places.emplace_back(KeyOf({"sample", rows_[i].id}), i);
    }
    std::ranges::sort(places);
    if (table_.label.empty() && places.size() > Place(table_.sample)) {
      places.resize(Place(table_.sample));
    }
    sampled_.assign(rows_.size(), false);
    for (const auto& [key, place] : places) {
      sampled_[place] = true;
      sample_.push_back(place);
    }
  }

  void ReadLarge() {
    large_.clear();
    ForEachRow(large_file_.path(), [this](OrderedJson row, std::int64_t) {
      std::string id = row.at("id").dump();
      large_[std::move(id)] = std::move(row);
    });
  }
  const OrderedJson& LargeRow(size_t place) const { return large_.at(rows_[place].id); }
  bool LargeKeeps(size_t place) const {
    const OrderedJson& row = LargeRow(place);
    return row.contains("keep") && row.at("keep").get<bool>();
  }

  void ChooseThresholds() {
    std::vector<JudgedRow> sample;
    for (const size_t place : sample_) {
      const bool large = LargeKeeps(place);
      sample.push_back({rows_[place].probability, large, rows_[place].label.value_or(large)});
    }
    band_ = ChooseBand(sample, {table_.recall, table_.precision, table_.confidence});
    if (!band_.problem.empty()) {
      Throw(ErrorKind::kInput, "{}: of a sample of {} rows: {}", job_.inputs.front(), sample.size(),
            band_.problem);
    }
  }

  void Write(JobReceipt& receipt) const {
    FinishedRows finished(job_);
    std::int64_t kept = 0, errors = 0, by_large = 0;
    size_t place = 0;
    ForEachRow(small_file_.path(), [&](OrderedJson row, std::int64_t) {
      const SmallRow& small = rows_[place];
      bool keep = false;
      const BandVerdict verdict =
          small.error ? BandVerdict::kKeep : VerdictOf(band_, small.probability);
      if (verdict == BandVerdict::kAskLarge) {
        ++by_large;
        row = LargeRow(place);
        keep = LargeKeeps(place);
      } else {
        keep = verdict == BandVerdict::kKeep;
      }
      ++place;
      if (row.contains("error")) {
        ++errors;
        return finished.Write(std::move(row));
      }
      kept += keep ? 1 : 0;
      if (!keep && !table_.all) return;
      OrderedJson written;
      written["id"] = row.at("id");
      if (table_.all) written["keep"] = keep;
      written["probability"] = row.at("probability");
      written["decided_by"] = verdict == BandVerdict::kAskLarge ? "large" : "small";
      row.erase("keep");
      for (const auto& [name, value] : row.items()) written[name] = value;
      finished.Write(std::move(written));
    });
    receipt.rows = receipt.rows_this_run = finished.Finish();
    receipt.error_rows = receipt.error_rows_this_run = errors;
    receipt.dropped = table_.all ? 0 : static_cast<std::int64_t>(rows_.size()) - kept - errors;
    std::string goals;
    if (table_.recall > 0.0) goals += fmt::format("recall {} or more", table_.recall);
    if (table_.precision > 0.0) {
      goals +=
          fmt::format("{}precision {} or more", goals.empty() ? "" : " and ", table_.precision);
    }
    receipt.promise = fmt::format(
        "{} with {:.4g} % confidence{}: the small model drops below {:.4f}{}; the large model "
        "decided {} of {} rows, and read a sample of {}",
        goals, 100.0 * table_.confidence,
        table_.label.empty() ? ", by the large model's labels" : "", band_.low,
        band_.high > 1.0 ? "" : fmt::format(" and keeps from {:.4f}", band_.high), by_large,
        rows_.size(), sample_.size());
  }

  const TableAskOptions& table_;
  const JobOptions& job_;
  TableAskOptions judging_;  // by one model: every row with its probability
  const RowsFile small_file_{job_.output, "small"}, large_file_{job_.output, "large"};
  std::vector<SmallRow> rows_;
  std::vector<bool> sampled_;                 // [rows_]
  std::vector<size_t> sample_;                // places in rows_, in a random order
  std::map<std::string, OrderedJson> large_;  // by id
  FilterBand band_;
};

}  // namespace

JobReceipt RunPromisedFilter(std::shared_ptr<Model> small, std::shared_ptr<Model> large,
                             const EngineOptions& engine_options, const TableAskOptions& table,
                             const JobOptions& options) {
  const JobOptions job = JobForTables(options);
  CheckTable(engine_options, table, job);
  CheckStagedJob(job);
  if (job.limit >= 0 || job.shards > 1) {
    Throw(ErrorKind::kUsage,
          "--recall, --precision: promise something of a whole table; without --limit and --shard");
  }
  return PromisedFilter(table, job).Run(small, large, engine_options);
}

}  // namespace banyan
