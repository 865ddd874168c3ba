#include "program/merge.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "base/atomic_file.h"
#include "base/byte_source.h"
#include "base/error.h"
#include "base/files.h"
#include "program/fresh_file.h"
#include "tasks/output/merge_shard.h"
#include "tasks/output/row_format.h"

namespace banyan {
namespace {

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

}  // namespace banyan
