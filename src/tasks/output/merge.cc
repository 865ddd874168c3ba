// banyan merge: the outputs of all shards of a job become one, with a journal of its own.
#include "program/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/byte_source.h"
#include "base/error.h"
#include "base/files.h"
#include "base/output_file.h"
#include "program/fresh_file.h"
#include "tasks/output/journal.h"
#include "tasks/output/output_check.h"
#include "tasks/output/row_format.h"

namespace banyan {
namespace {

// One shard of a job: what its output and its journal say.
struct Shard {
  std::string path;
  int number = 0, count = 0;  // i/n
  JournalContents journal;
  std::string before_records;  // what a table begins with, unpacked

  const Key128& input() const { return journal.commits.back().input; }  // REQUIRES: complete
  std::int64_t rows() const;
  std::int64_t error_rows() const;
  std::string answers_hash() const;
};

std::string HeadOf(const std::string& path, std::int64_t bytes) {
  std::string head;
  const std::unique_ptr<ByteSource> source = OpenByteSource(path);
  while (static_cast<std::int64_t>(head.size()) < bytes) {
    const size_t at = head.size();
    head.resize(static_cast<size_t>(bytes));
    const size_t got = source->Read(std::span(head).subspan(at));
    head.resize(at + got);
    if (got == 0) break;
  }
  return head;
}

void ReadNumber(Shard& shard) {
  const Json parameters = shard.journal.header.value("parameters", Json::object());
  const std::string text = parameters.value("--shard", std::string());
  if (std::sscanf(text.c_str(), "%d/%d", &shard.number, &shard.count) != 2 || shard.number < 1 ||
      shard.number > shard.count) {
    Throw(ErrorKind::kFormat, "{}.journal: expected --shard i/n among its parameters, found '{}'",
          shard.path, text);
  }
}

void CheckContent(Shard& shard) {
  std::int64_t before = shard.journal.raw_bytes();
  for (const JournalRecord& record : shard.journal.records) before -= record.bytes;
  if (before < 0) Throw(ErrorKind::kFormat, "{}.journal: its counts do not fit", shard.path);
  shard.before_records = HeadOf(shard.path, before);
  const OutputCheck check =
      CheckOutput(shard.path, PackingOf(shard.path), shard.before_records, shard.journal);
  if (check.changed || check.records < shard.journal.records.size() ||
      check.kept_bytes() != check.length) {
    Throw(ErrorKind::kUsage,
          "{}: was changed since it was written: it is not what its journal says from byte {} on",
          shard.path, check.kept_bytes());
  }
}

// The parameters that tell two shards apart, apart from which shard they are.
std::string Differences(const Json& one, const Json& other) {
  std::string text;
  const auto shown = [](const Json& value) {
    std::string dumped = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (dumped.size() > 120) dumped = dumped.substr(0, 120) + "…";
    return dumped;
  };
  if (one.value("task", Json()) != other.value("task", Json())) {
    text += fmt::format("\n  task: {} and {}", shown(one["task"]), shown(other["task"]));
  }
  for (const auto& [group, prefix] : {std::pair("model", "model's "), {"parameters", ""}}) {
    Json left = one.value(group, Json::object());
    Json right = other.value(group, Json::object());
    left.update(right, false);  // all names of the two
    for (const auto& [name, unused] : left.items()) {
      const Json a = one.value(group, Json::object()).value(name, Json());
      const Json b = right.value(name, Json());
      if (name == "--shard" || a == b) continue;
      text += fmt::format("\n  {}{}: {} and {}", prefix, name, shown(a), shown(b));
    }
  }
  return text;
}

void CheckNumbers(const std::vector<Shard>& shards) {
  const int count = shards.front().count;
  for (const Shard& shard : shards) {
    if (shard.count == count) continue;
    Throw(ErrorKind::kUsage, "{} is shard {}/{}, and {} is {}/{}: they are not of one job",
          shards.front().path, shards.front().number, count, shard.path, shard.number, shard.count);
  }
  for (size_t i = 1; i < shards.size(); ++i) {
    if (shards[i].number != shards[i - 1].number) continue;
    Throw(ErrorKind::kUsage, "{} and {} are both shard {}/{}", shards[i - 1].path, shards[i].path,
          shards[i].number, count);
  }
  std::string missing;
  size_t next = 0;
  for (int number = 1; number <= count; ++number) {
    if (next < shards.size() && shards[next].number == number) {
      ++next;
    } else {
      missing += fmt::format("{}{}/{}", missing.empty() ? "" : ", ", number, count);
    }
  }
  if (!missing.empty()) {
    Throw(ErrorKind::kUsage, "expected all {} shards, found {}; missing: {}", count, shards.size(),
          missing);
  }
}

void CheckRecords(const std::vector<Shard>& shards) {
  KeySet keys;
  for (const Shard& shard : shards) {
    for (const JournalRecord& record : shard.journal.records) {
      if (keys.Insert(record.key)) continue;
      Throw(ErrorKind::kUsage,
            "{}: a record of it is in another shard too: they were not made from the same input",
            shard.path);
    }
  }
  // Every n-th record from the i-th on: later shards have as many as the first, or one less.
  const size_t most = shards.front().journal.records.size();
  for (size_t i = 1; i < shards.size(); ++i) {
    const size_t here = shards[i].journal.records.size();
    const size_t before = shards[i - 1].journal.records.size();
    if (here <= before && here + 1 >= most) continue;
    Throw(ErrorKind::kUsage,
          "{} has {} records and {} has {}: they were not made from the same input, as it is now",
          shards[i - 1].path, before, shards[i].path, here);
  }
}

// Every shard reads the whole input and keeps its hash: equal ids do not make two inputs one.
void CheckInputs(const std::vector<Shard>& shards) {
  for (const Shard& shard : shards) {
    if (shard.input() == shards.front().input()) continue;
    Throw(ErrorKind::kUsage,
          "{} and {} were not made from the same input: some row of it was changed, or rows stood "
          "in another order",
          shards.front().path, shard.path);
  }
}

std::int64_t Shard::rows() const {
  std::int64_t sum = 0;
  for (const JournalRecord& record : journal.records) sum += record.rows;
  return sum;
}

std::int64_t Shard::error_rows() const {
  std::int64_t sum = 0;
  for (const JournalRecord& record : journal.records) sum += record.error_rows;
  return sum;
}

std::string Shard::answers_hash() const {
  Key128 sum{};
  for (const JournalRecord& record : journal.records) AddTo(sum, record.hash);
  return fmt::format("{:016x}{:016x}", sum[1], sum[0]);
}

// Reads the journal and compares the output with it. Throws kNotFound, kFormat, kUsage.
Shard ReadShard(const std::string& path) {
  Shard shard;
  shard.path = path;
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) {
    Throw(ErrorKind::kNotFound, "{}: expected the output of a job, found no such file", path);
  }
  shard.journal = ReadJournal(path + ".journal");
  if (!shard.journal.exists) {
    Throw(ErrorKind::kNotFound, "{0}: has no journal ({0}.journal), which says what it holds",
          path);
  }
  if (!shard.journal.usable()) {
    Throw(ErrorKind::kFormat, "{}.journal: {}", path, shard.journal.problem);
  }
  if (!shard.journal.complete() || shard.journal.header.contains("replacement")) {
    Throw(ErrorKind::kUsage, "{}: its job is not finished: go on with it and --resume", path);
  }
  ReadNumber(shard);
  CheckContent(shard);
  return shard;
}

// Sorted by number. Throws kUsage unless they are parts of one job and all of it: each of 1 … n
// once, equal parameters and models, no record twice, as many records as every n-th of one input
// gives.
void CheckShards(std::vector<Shard>& shards) {
  std::ranges::stable_sort(shards, {}, &Shard::number);
  CheckNumbers(shards);
  const Shard& first = shards.front();
  for (const Shard& shard : shards) {
    const std::string differences = Differences(first.journal.header, shard.journal.header);
    if (!differences.empty()) {
      Throw(ErrorKind::kUsage, "{} and {} are not of one job:{}", first.path, shard.path,
            differences);
    }
    if (shard.before_records != first.before_records) {
      Throw(ErrorKind::kUsage, "{} and {} have different columns", first.path, shard.path);
    }
  }
  CheckRecords(shards);
  CheckInputs(shards);
}

// A shard's rows, record by record.
class RecordSource {
 public:
  explicit RecordSource(const Shard& shard) : shard_(shard), source_(OpenByteSource(shard.path)) {
    Read(static_cast<std::int64_t>(shard.before_records.size()));
  }
  bool over() const { return next_ == shard_.journal.records.size(); }
  const JournalRecord& record() const { return shard_.journal.records[next_]; }

  // The rows of the next record.
  const std::string& Take() {
    const JournalRecord& wanted = record();
    ++next_;
    Read(wanted.bytes);
    if (RowsContent(text_) != wanted.content) Changed();
    return text_;
  }

 private:
  void Read(std::int64_t bytes) {
    text_.resize(static_cast<size_t>(bytes));
    for (size_t at = 0; at < text_.size();) {
      const size_t got = source_->Read(std::span(text_).subspan(at));
      if (got == 0) Changed();
      at += got;
    }
  }
  [[noreturn]] void Changed() const {
    Throw(ErrorKind::kIo, "{}: was changed while it was read", shard_.path);
  }

  const Shard& shard_;
  std::unique_ptr<ByteSource> source_;
  size_t next_ = 0;
  std::string text_;
};

void CheckOutputName(const MergeOptions& options, const Shard& shard) {
  if (options.output == "-") return;
  JobOptions job;
  job.output = options.output;
  const std::string format = RowFormat(job, {}).name();
  const Json wanted = shard.journal.header.at("parameters").value("output format", Json());
  if (wanted != format) {
    Throw(ErrorKind::kUsage, "{}: its name says {}, and the shards are {}", options.output, format,
          wanted.dump());
  }
  for (const std::string& path : options.shards) {
    if (IdentityOf(path) == IdentityOf(options.output)) {
      Throw(ErrorKind::kUsage, "{}: is one of the shards", options.output);
    }
  }
  GuardOutput(options.output, "-o", options.overwrite);
}

// Appends all rows and notes their records in the order of the output.
void Copy(const std::vector<Shard>& shards, bool ordered, OutputFile& file,
          JournalContents& journal) {
  std::int64_t raw_bytes = static_cast<std::int64_t>(shards.front().before_records.size());
  file.Append(shards.front().before_records);
  const auto take = [&](RecordSource& source) {
    journal.records.push_back(source.record());
    raw_bytes += source.record().bytes;
    file.Append(source.Take());
  };
  std::vector<std::unique_ptr<RecordSource>> sources;
  for (const Shard& shard : shards) sources.push_back(std::make_unique<RecordSource>(shard));
  if (ordered) {  // record r is the next one of shard r modulo n
    for (size_t at = 0; !sources[at]->over(); at = (at + 1) % sources.size()) take(*sources[at]);
  }
  for (const auto& source : sources) {
    while (!source->over()) take(*source);
  }
  const std::int64_t length = file.Checkpoint();
  journal.commits.push_back({length, raw_bytes, true, file.content().Value(),
                             journal.records.size(), shards.front().input()});
}

void WriteMerged(const MergeOptions& options, const std::vector<Shard>& shards) {
  JournalContents journal;
  journal.exists = true;
  journal.header = shards.front().journal.header;
  journal.header["parameters"]["--shard"] = "1/1";
  journal.header["parameters"]["ordered"] = options.ordered;
  if (options.output == "-") {
    OutputFile file("-", Packing::kNone);
    return Copy(shards, options.ordered, file, journal);
  }
  const std::string part = options.output + ".merging";
  std::error_code none;
  std::filesystem::remove(part, none);
  try {
    Copy(shards, options.ordered, *OutputFile::Create(part, PackingOf(options.output)), journal);
    JournalWriter(options.output + ".journal").Rewrite(journal);
    if (!ReplaceFile(part, options.output)) {
      Throw(ErrorKind::kIo, "{}: cannot write: {}", options.output, std::strerror(errno));
    }
  } catch (...) {
    std::filesystem::remove(part, none);
    throw;
  }
}

using OrderedJson = nlohmann::ordered_json;

Json ReadReceipt(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) Throw(ErrorKind::kNotFound, "{}: cannot read the receipt", path);
  const Json receipt = ParseJson(text.str(), path);
  if (!receipt.is_object() || !receipt.contains("answers_hash") || !receipt.contains("seconds")) {
    Throw(ErrorKind::kFormat, "{}: expected the receipt of a job", path);
  }
  return receipt;
}

// The counts of the shards' receipts together, as JSON. Throws kNotFound, kFormat, and kUsage when
// a receipt is of none of the shards, or a shard has none.
std::string SumReceipts(const std::vector<std::string>& receipts,
                        const std::vector<Shard>& shards) {
  std::vector<std::string> missing;
  for (const Shard& shard : shards) missing.push_back(shard.answers_hash());
  OrderedJson sums = OrderedJson::object();
  double longest = 0.0, machine = 0.0;
  Json backends = Json::array();
  for (const std::string& path : receipts) {
    const Json receipt = ReadReceipt(path);
    const auto shard = std::ranges::find(missing, receipt.at("answers_hash").get<std::string>());
    if (shard == missing.end()) {
      Throw(ErrorKind::kUsage,
            "{}: is the receipt of none of the shards as they are now, or comes twice", path);
    }
    missing.erase(shard);
    for (const char* name :
         {"rows_this_run", "prompt_tokens", "prefilled_tokens", "shared_tokens", "copied_tokens",
          "generated_tokens", "preempted", "steps", "streams"}) {
      sums[name] = sums.value(name, std::int64_t{0}) + receipt.value(name, std::int64_t{0});
    }
    const double seconds = receipt.at("seconds").value("total", 0.0);
    longest = std::max(longest, seconds);
    machine += seconds;
    const Json backend = receipt.value("backend", Json());
    if (std::ranges::find(backends, backend) == backends.end()) backends.push_back(backend);
  }
  if (!missing.empty()) {
    Throw(ErrorKind::kUsage, "expected the receipts of all {} shards, found {}", shards.size(),
          receipts.size());
  }
  sums["seconds"] = {{"longest", longest}, {"machines", machine}};
  sums["backends"] = backends;
  return sums.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace

MergeReceipt MergeShards(const MergeOptions& options) {
  if (options.shards.empty()) Throw(ErrorKind::kUsage, "expected the outputs of all shards");
  std::vector<Shard> shards;
  for (const std::string& path : options.shards) shards.push_back(ReadShard(path));
  CheckShards(shards);
  const Json parameters = shards.front().journal.header.at("parameters");
  if (options.ordered && !parameters.value("ordered", false)) {
    Throw(ErrorKind::kUsage,
          "--ordered: the shards' own rows are in the order in which they were finished; run the "
          "shards with --ordered, or merge without");
  }
  CheckOutputName(options, shards.front());
  MergeReceipt receipt;
  if (!options.receipts.empty()) receipt.sums = SumReceipts(options.receipts, shards);
  WriteMerged(options, shards);
  receipt.task = shards.front().journal.header.value("task", std::string());
  receipt.output = options.output;
  receipt.shards = static_cast<int>(shards.size());
  Key128 hash{};
  for (const Shard& shard : shards) {
    receipt.records += static_cast<std::int64_t>(shard.journal.records.size());
    receipt.rows += shard.rows();
    receipt.error_rows += shard.error_rows();
    for (const JournalRecord& record : shard.journal.records) AddTo(hash, record.hash);
  }
  receipt.answers_hash = fmt::format("{:016x}{:016x}", hash[1], hash[0]);
  return receipt;
}

std::string MergeReceipt::ToText() const {
  return fmt::format(
      "{}: {} shards are one output\n  {:<10} {} ({} errors) of {} records\n  {:<10} {}\n", task,
      shards, "rows", rows, error_rows, records, "answers", answers_hash);
}

std::string MergeReceipt::ToJson() const {
  OrderedJson json;
  json["task"] = task;
  json["end"] = "complete";
  json["output"] = output;
  json["shards"] = shards;
  json["rows"] = rows;
  json["error_rows"] = error_rows;
  json["records"] = records;
  if (!sums.empty()) json.update(OrderedJson::parse(sums));
  json["answers_hash"] = answers_hash;
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace banyan
