#include "tasks/table/table_finish.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/output_file.h"
#include "program/fresh_file.h"
#include "tasks/job/task.h"
#include "tasks/output/row_format.h"
#include "tasks/output/rows_copy.h"

namespace banyan {
using OrderedJson = nlohmann::ordered_json;

void ForEachRow(const std::string& path,
                const std::function<void(OrderedJson row, std::int64_t begin)>& hear) {
  std::ifstream file(path, std::ios::binary);
  std::string line;
  for (std::int64_t begin = 0; std::getline(file, line);
       begin += static_cast<std::int64_t>(line.size()) + 1) {
    if (!line.empty()) hear(OrderedJson::parse(line), begin);
  }
  if (file.bad()) Throw(ErrorKind::kIo, "{}: cannot read the job's rows", path);
}

struct FinishedRows::Parts {
  explicit Parts(const JobOptions& job)
      : job(job), packing(PackingOf(job.output)), copy(job.rows_copy) {
    std::error_code none;
    const bool device = std::filesystem::exists(job.output, none) &&
                        !std::filesystem::is_regular_file(job.output, none);
    if (job.output == "-" || device) {
      file = std::make_unique<OutputFile>(job.output, packing);
      return;
    }
    GuardOutput(job.output, "-o", job.overwrite || job.resume);
    part = job.output + ".part";
    std::filesystem::remove(part, none);
    file = OutputFile::Create(part, packing);
  }
  ~Parts() {
    std::error_code none;
    if (!part.empty()) std::filesystem::remove(part, none);
  }

  void Begin(const OrderedJson& first) {
    TableColumns columns;
    for (const auto& item : first.items()) {
      if (item.key() != "error") columns.all.push_back(item.key());
    }
    columns.shown = columns.all;
    format = std::make_unique<RowFormat>(job, columns);
    file->Append(format->Header());
  }

  const JobOptions& job;
  const Packing packing;
  std::string part;  // where a file is written until it is whole; empty: no file, or in its place
  std::unique_ptr<OutputFile> file;
  RowsCopy copy;                      // of what is written
  std::unique_ptr<RowFormat> format;  // null: no row was written yet
  std::int64_t count = 0;
};

FinishedRows::FinishedRows(const JobOptions& job) : parts_(std::make_unique<Parts>(job)) {}
FinishedRows::~FinishedRows() = default;

void FinishedRows::Write(OrderedJson fields) {
  OutputRow row;
  row.error = fields.contains("error");
  row.fields = std::move(fields);
  if (!parts_->format) parts_->Begin(row.fields);
  parts_->file->Append(parts_->format->Line(row));
  parts_->copy.Add({&row, 1});
  ++parts_->count;
}

std::int64_t FinishedRows::Finish() {
  if (!parts_->format) parts_->Begin({{"id", nullptr}});
  parts_->copy.Flush();
  if (parts_->part.empty()) {
    parts_->file->Flush();
    return parts_->count;
  }
  parts_->file->Checkpoint();
  if (!ReplaceFile(parts_->part, parts_->job.output)) {
    Throw(ErrorKind::kIo, "{}: cannot write: {}", parts_->job.output, std::strerror(errno));
  }
  parts_->part.clear();
  return parts_->count;
}

RowsFile::RowsFile(const std::string& output, const std::string& part) {
  std::error_code none;
  const bool device =
      std::filesystem::exists(output, none) && !std::filesystem::is_regular_file(output, none);
  if (output != "-" && !device) {
    path_ = fmt::format("{}.{}.jsonl", output, part);
    return;
  }
  folder_ = (std::filesystem::temp_directory_path() / "banyan-table-XXXXXX").string();
  if (::mkdtemp(folder_.data()) == nullptr) {
    Throw(ErrorKind::kIo, "cannot make a temporary folder for the table's rows: {}",
          std::strerror(errno));
  }
  path_ = folder_ + "/rows.jsonl";
}

RowsFile::~RowsFile() {
  std::error_code none;
  if (temporary()) std::filesystem::remove_all(folder_, none);
}

JobOptions RowsFile::JobOf(const JobOptions& job) const {
  JobOptions of_rows = job;
  of_rows.output = path_;
  of_rows.output_format = "jsonl";
  of_rows.rows_copy.clear();
  std::error_code none;
  of_rows.resume = job.resume && std::filesystem::exists(path_, none);
  return of_rows;
}

void CheckStagedJob(JobOptions job) {
  job.overwrite |= job.resume;
  job.resume = job.retry_errors = false;
  CheckJob(job);
  GuardOutput(job.output, "-o", job.overwrite);
}

RankedPlaces PlacesByScore(const std::string& rows_file) {
  std::vector<std::pair<double, std::int64_t>> places;  // score and where the row begins
  RankedPlaces ranked;
  ForEachRow(rows_file, [&](const OrderedJson& row, std::int64_t begin) {
    const bool error = row.contains("error");
    ranked.errors += error ? 1 : 0;
    places.emplace_back(
        error ? -std::numeric_limits<double>::infinity() : row.at("score").get<double>(), begin);
  });
  std::ranges::stable_sort(places, std::greater(), &std::pair<double, std::int64_t>::first);
  for (const auto& [score, begin] : places) ranked.begins.push_back(begin);
  return ranked;
}

std::int64_t WriteRanked(const TableAskOptions& table, const std::string& rows_file,
                         const RankedPlaces& places, const JobOptions& job) {
  size_t count = places.begins.size();
  if (table.top > 0) count = std::min(count, static_cast<size_t>(table.top));
  std::ifstream file(rows_file, std::ios::binary);
  FinishedRows finished(job);
  std::int64_t rank = 0;
  std::string line;
  for (size_t i = 0; i < count; ++i) {
    file.clear();
    file.seekg(places.begins[i]);
    if (!std::getline(file, line)) Throw(ErrorKind::kIo, "{}: cannot read its rows", rows_file);
    OrderedJson row = OrderedJson::parse(line);
    OrderedJson ranked;
    ranked["id"] = row["id"];
    if (!row.contains("error")) ranked["rank"] = ++rank;
    for (const auto& [name, value] : row.items()) ranked[name] = value;
    finished.Write(std::move(ranked));
  }
  return finished.Finish();
}

std::int64_t WriteGroups(const TableAskOptions& table, const std::string& rows_file,
                         const JobOptions& job) {
  struct Group {
    OrderedJson name;
    OrderedJson members = OrderedJson::array();
  };
  std::vector<Group> groups;
  std::map<std::string, size_t> numbers;
  std::vector<OrderedJson> errors;
  const auto group_of = [&](const OrderedJson& answer) -> Group& {
    const bool free = table.labels.empty() && answer.is_string();
    const std::string key =
        free ? "." + ComparableAnswer(answer.get<std::string>()) : answer.dump();
    const auto [at, is_new] = numbers.emplace(key, groups.size());
    if (is_new) groups.push_back({answer});
    return groups[at->second];
  };
  for (const std::string& label : table.labels) group_of(label);
  ForEachRow(rows_file, [&](OrderedJson row, std::int64_t) {
    if (row.contains("error")) return errors.push_back(std::move(row));
    group_of(row.at("answer")).members.push_back(row.at("id"));
  });
  std::ranges::stable_sort(groups, std::greater(),
                           [](const Group& group) { return group.members.size(); });
  FinishedRows finished(job);
  for (Group& group : groups) {
    OrderedJson row;
    row["group"] = std::move(group.name);
    row["rows"] = group.members.size();
    row["members"] = std::move(group.members);
    finished.Write(std::move(row));
  }
  for (OrderedJson& error : errors) {
    OrderedJson row;
    for (const char* name : {"id", "error"}) row[name] = error[name];
    finished.Write(std::move(row));
  }
  return finished.Finish();
}

}  // namespace banyan
