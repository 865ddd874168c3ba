#include "tasks/output/merge_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/byte_source.h"
#include "base/error.h"
#include "tasks/output/output_check.h"

namespace banyan {
namespace {

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

}  // namespace

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

}  // namespace banyan
