// A join by a statement: which rows of the right table are like a row of the left one, by shared
// words or by vectors, and a filter over these pairs. Pairs are written out, so that the filter is
// a job like any other.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/join.h"
#include "base/error.h"
#include "base/json.h"
#include "retrieve/bm25.h"
#include "retrieve/vector_search.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/output/journal.h"
#include "tasks/table/table_finish.h"
#include "tasks/table/table_run.h"

namespace banyan {
namespace {

constexpr const char* kLeft = "left.";
constexpr const char* kRight = "right.";
constexpr size_t kEncodedTogether = 256;

// The columns that the statement has of one table, without the table's name.
std::vector<std::string> ColumnsOfSide(const TableAskOptions& table, const std::string& side) {
  std::vector<std::string> columns;
  for (const std::string& column : TableColumnsOf(table)) {
    if (column.starts_with(side)) {
      columns.push_back(column.substr(side.size()));
    } else if (!column.starts_with(kLeft) && !column.starts_with(kRight)) {
      Throw(ErrorKind::kUsage,
            "the statement: expected columns as {{left.NAME}} and {{right.NAME}}, found '{}'",
            column);
    }
  }
  if (columns.empty()) {
    Throw(ErrorKind::kUsage,
          "the statement names no column of the {0} table: write {{{1}NAME}} where it belongs",
          side == kLeft ? "left" : "right", side);
  }
  return columns;
}

struct JoinRow {
  Json id, fields;    // fields: under their own names
  std::string text;   // of the columns in the statement, by which it is found
  std::string place;  // "right.csv, line 3"
  std::string problem;
};

// The rows of one table, one after another.
class JoinSide {
 public:
  JoinSide(const TableAskOptions& table, const JobOptions& job, const std::string& side)
      : columns_(ColumnsOfSide(table, side)), reader_(Reading(job)) {}

  bool Next(JoinRow& row) {
    InputRow read;
    if (!reader_.Next(read)) return false;
    row = JoinRow();
    row.place = read.line > 0 ? fmt::format("{}, line {}", read.file, read.line) : read.file;
    try {
      if (read.problem) Throw(read.problem->kind, "{}", read.problem->message);
      row.id = IdOf(read.value);
      if (!ids_.Insert(KeyOf({DumpJson(row.id)}))) {
        Throw(ErrorKind::kInput, "an earlier row has the same id");
      }
      for (const std::string& column : columns_) {
        const auto found = read.value.find(column);
        if (found == read.value.end()) {
          Throw(ErrorKind::kInput, "expected the column '{}', found none", column);
        }
        row.text += (found->is_null() ? "" : TextOrJson(*found)) + "\n";
      }
      row.fields = std::move(read.value);
    } catch (const std::exception& e) {
      row.problem = fmt::format("{}: {}", row.place, ProblemOf(e).message);
    }
    return true;
  }

 private:
  InputOptions Reading(const JobOptions& job) const {
    InputOptions input = InputOf(job);
    for (const std::string& column : columns_) input.needed.push_back({column});
    return input;
  }

  const std::vector<std::string> columns_;
  InputReader reader_;
  KeySet ids_;
};

// Which rows of the right table are asked about beside one of the left.
class Blocking {
 public:
  virtual ~Blocking() = default;
  virtual std::vector<ScoredDocument> Nearest(const std::string& text, size_t count) const = 0;
};

class WordBlocking : public Blocking {
 public:
  explicit WordBlocking(const std::vector<JoinRow>& rows) {
    std::vector<std::vector<std::string>> words;
    for (const JoinRow& row : rows) words.push_back(WordsOf(row.text));
    index_ = Bm25(words, {});
  }
  std::vector<ScoredDocument> Nearest(const std::string& text, size_t count) const override {
    return BestDocuments(index_.Scores(WordsOf(text)), count);
  }

 private:
  Bm25 index_;
};

class VectorBlocking : public Blocking {
 public:
  VectorBlocking(std::shared_ptr<Encoder> encoder, const std::vector<JoinRow>& rows)
      : encoder_(std::move(encoder)) {
    for (size_t begin = 0; begin < rows.size(); begin += kEncodedTogether) {
      std::vector<std::vector<TokenId>> texts;
      const size_t end = std::min(rows.size(), begin + kEncodedTogether);
      for (size_t i = begin; i < end; ++i) texts.push_back(EncoderTokens(*encoder_, rows[i].text));
      for (const Embedding& one : encoder_->Embed(texts, {.sparse = false, .colbert = false})) {
        vectors_.insert(vectors_.end(), one.dense.begin(), one.dense.end());
      }
    }
  }
  std::vector<ScoredDocument> Nearest(const std::string& text, size_t count) const override {
    const std::vector<std::vector<TokenId>> texts = {EncoderTokens(*encoder_, text)};
    const std::vector<Embedding> found =
        encoder_->Embed(texts, {.sparse = false, .colbert = false});
    const VectorTable table{vectors_, static_cast<size_t>(encoder_->dimensions())};
    return NearestOf(table, found.front().dense, count);
  }

 private:
  const std::shared_ptr<Encoder> encoder_;
  std::vector<float> vectors_;  // [rows, dimensions]
};

// Pairs as rows of a table whose columns are called left.NAME and right.NAME.
class PairsFile {
 public:
  explicit PairsFile(const std::string& path) : path_(path), file_(path, std::ios::binary) {}

  void Add(const JoinRow& left, const JoinRow& right) {
    Json pair = {{"id", DumpJson(Json::array({left.id, right.id}))}};
    for (const auto& item : left.fields.items()) pair[kLeft + item.key()] = item.value();
    for (const auto& item : right.fields.items()) pair[kRight + item.key()] = item.value();
    Write(pair);
    ++count_;
  }
  // A row of either table that has no pair.
  void AddProblem(const JoinRow& row) { Write({{"id", row.place}, {kProblemField, row.problem}}); }
  std::int64_t Finish() {
    file_.close();
    if (!file_) Throw(ErrorKind::kIo, "{}: cannot write the pairs of the join (TMPDIR)", path_);
    return count_;
  }

 private:
  void Write(const Json& row) { file_ << DumpJson(row) << "\n"; }

  const std::string path_;
  std::ofstream file_;
  std::int64_t count_ = 0;
};

}  // namespace

JobReceipt RunJoin(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                   const TableAskOptions& table, const JoinOptions& join,
                   const JobOptions& options) {
  JobOptions whole = options;
  whole.limit = -1;  // of pairs
  const JobOptions left_job = JobForTables(whole);
  JobOptions right_job = whole;
  right_job.inputs = {join.right};
  right_job.fields.clear();
  right_job = JobForTables(right_job);
  CheckTable(engine_options, table, left_job);

  std::vector<JoinRow> right;
  std::vector<JoinRow> problems;
  JoinRow row;
  for (JoinSide side(table, right_job, kRight); side.Next(row);) {
    (row.problem.empty() ? right : problems).push_back(std::move(row));
  }
  std::unique_ptr<Blocking> blocking;
  if (join.encoder) {
    blocking = std::make_unique<VectorBlocking>(join.encoder, right);
  } else {
    blocking = std::make_unique<WordBlocking>(right);
  }
  const RowsFile pairs("-");  // they are made anew by every run
  PairsFile file(pairs.path());
  std::int64_t lefts = 0;
  for (JoinSide side(table, left_job, kLeft); side.Next(row);) {
    ++lefts;
    if (!row.problem.empty()) {
      problems.push_back(row);
      continue;
    }
    for (const ScoredDocument& near : blocking->Nearest(row.text, join.candidates)) {
      file.Add(row, right[static_cast<size_t>(near.document)]);
    }
  }
  for (const JoinRow& problem : problems) file.AddProblem(problem);
  const std::int64_t count = file.Finish();
  if (left_job.notice) {
    left_job.notice(fmt::format(
        "{} pairs are asked about, of {} left and {} right rows: at most {} candidates each, by {}",
        count, lefts, right.size(), join.candidates, join.encoder ? "vectors" : "shared words"));
  }
  JobOptions job = options;
  job.inputs = {pairs.path()};
  job.input_format = "jsonl";
  job.input_names[pairs.path()] = "pairs";
  job.problem_field = kProblemField;
  job.fields.clear();
  job.id_column.clear();
  job.needed_columns.clear();
  return RunTable(std::move(model), engine_options, table, job);
}

}  // namespace banyan
