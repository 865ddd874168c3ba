#include "tasks/output.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/byte_source.h"
#include "base/csv.h"
#include "base/error.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;
using OrderedJson = nlohmann::ordered_json;
constexpr const char* kReplacement = ".replacement";

std::string Dump(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

// a += b, 128 bits.
void AddTo(Key128& a, const Key128& b) {
  a[0] += b[0];
  a[1] += b[1] + (a[0] < b[0] ? 1 : 0);
}

std::int64_t LengthOf(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : static_cast<std::int64_t>(size);
}

// Runs what writes; a failure says that nothing that counts is lost.
template <typename Body>
void Writing(bool resumable, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    if (!resumable || e.kind() != ErrorKind::kIo) throw;
    Throw(ErrorKind::kIo, "{}\nWhat was finished is kept: mend that and go on with --resume.",
          e.what());
  }
}

}  // namespace

JobOutput::JobOutput(const JobOptions& options, Json header)
    : options_(options), header_(std::move(header)) {
  std::string_view name = options.output;
  packing_ = PackingOf(name);
  if (packing_ != Packing::kNone) name = name.substr(0, name.rfind('.'));
  csv_ = options.output_format.empty() ? name.ends_with(".csv") : options.output_format == "csv";
  header_["parameters"]["output format"] = csv_ ? "csv" : "jsonl";
  header_["parameters"]["columns"] = options.columns;
  header_["parameters"]["ordered"] = options.ordered;
  header_["version"] = 1;
  last_flush_ = last_commit_ = Clock::now();
  std::error_code none;
  const bool device = std::filesystem::exists(options.output, none) &&
                      !std::filesystem::is_regular_file(options.output, none);
  if (options.output == "-" || device) {  // nothing can be cut or taken up again there
    if (options.resume) {
      Throw(ErrorKind::kUsage, "{}: cannot resume: it is no file", options.output);
    }
    file_ = std::make_unique<OutputFile>(options.output, packing_);
    Begin();
    return;
  }
  Lock();
  journal_ = std::make_unique<JournalWriter>(options.output + ".journal");
  Open();
}

JobOutput::~JobOutput() {
  if (lock_ >= 0) ::close(lock_);
}

// On the output file itself; again after it was replaced.
void JobOutput::Lock() {
  if (lock_ >= 0) ::close(lock_);
  lock_ = ::open(options_.output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (lock_ < 0) {
    Throw(ErrorKind::kIo, "{}: cannot open the output: {}", options_.output, std::strerror(errno));
  }
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    Throw(ErrorKind::kUsage, "{}: another job is writing this output", options_.output);
  }
}

void JobOutput::Open() {
  const std::string& output = options_.output;
  JournalContents contents = FinishReplacing();
  if (!options_.resume) {
    if (contents.exists && !contents.last.complete && !contents.records.empty() &&
        !options_.overwrite) {
      Throw(ErrorKind::kUsage,
            "{}: holds an unfinished job of {} records; go on with --resume, or begin anew with "
            "--overwrite",
            output, contents.records.size());
    }
    return Begin();
  }
  if (!contents.exists) {
    if (LengthOf(output) > 0) {
      Throw(ErrorKind::kUsage,
            "{}: cannot resume: there is no journal beside it ({}.journal), so nothing says which "
            "rows are whole",
            output, output);
    }
    return Begin();
  }
  CheckSameJob(contents.header);
  if (options_.retry_errors) contents = DropErrors(contents);
  Resume(contents);
}

// An empty journal first, then the output is emptied: never an old journal beside new rows.
void JobOutput::Begin() {
  Writing(false, [&] {
    if (has_journal()) {
      journal_->Rewrite(header_, {}, {});
      file_ = std::make_unique<OutputFile>(options_.output, packing_);
    }
    if (csv_) {
      std::vector<std::string> names = {"id", "question_id", "answer", "finish_reason", "tokens"};
      names.insert(names.end(), options_.columns.begin(), options_.columns.end());
      names.insert(names.end(),
                   {"error_kind", "error_message", "error_file", "error_line", "more"});
      const std::string line = CsvRow(names);
      raw_bytes_ += static_cast<std::int64_t>(line.size());
      file_->Append(line);
    }
    if (has_journal()) Checkpoint(false);
  });
}

void JobOutput::Resume(const JournalContents& contents) {
  for (const JournalRecord& record : contents.records) {
    done_.Insert(record.key);
    rows_ += record.rows;
    error_rows_ += record.error_rows;
    AddTo(hash_, record.hash);
  }
  raw_bytes_ = contents.last.raw_bytes;
  file_ = std::make_unique<OutputFile>(options_.output, packing_, contents.last.length);
  JournalCommit commit = contents.last;
  commit.complete = false;
  journal_->Rewrite(header_, contents.records, commit);
}

void JobOutput::CheckSameJob(const Json& before) const {
  std::string differences;
  const auto differs = [&](const std::string& name, const Json& was, const Json& is) {
    const auto shown = [](const Json& value) {
      std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (text.size() > 120) text = text.substr(0, 120) + "…";
      return text;
    };
    differences += fmt::format("\n  {}: was {}, is {}", name, shown(was), shown(is));
  };
  for (const char* name : {"version", "task", "model"}) {
    const Json was = before.value(name, Json());
    if (was != header_.at(name)) differs(name, was, header_.at(name));
  }
  const Json was = before.value("parameters", Json::object());
  const Json& is = header_.at("parameters");
  for (const auto& [name, value] : is.items()) {
    const Json old = was.value(name, Json());
    if (old != value) differs(name, old, value);
  }
  for (const auto& [name, value] : was.items()) {
    if (!is.contains(name)) differs(name, value, Json());
  }
  if (differences.empty()) return;
  Throw(ErrorKind::kUsage,
        "{}: cannot resume, because its rows were made with other parameters:{}\nGive the same "
        "ones, or another output.",
        options_.output, differences);
}

// Copies the output without the records that have error rows. The journal decides which of the two
// files counts: once it names the replacement, the old output is history.
JournalContents JobOutput::DropErrors(const JournalContents& contents) {
  bool any = false;
  for (const JournalRecord& record : contents.records) any = any || record.error_rows > 0;
  if (!any) return contents;
  const std::string& output = options_.output;
  std::filesystem::resize_file(output, static_cast<std::uintmax_t>(contents.last.length));
  const std::unique_ptr<ByteSource> old = OpenByteSource(output);
  OutputFile replacement(output + kReplacement, packing_);
  const auto copy = [&](std::int64_t bytes, bool keep) {
    std::vector<char> buffer(1 << 16);
    while (bytes > 0) {
      const auto wanted = static_cast<size_t>(std::min<std::int64_t>(bytes, 1 << 16));
      const size_t got = old->Read(std::span(buffer.data(), wanted));
      if (got == 0) {
        Throw(ErrorKind::kFormat, "{}: shorter than its journal says: it was changed", output);
      }
      if (keep) replacement.Append({buffer.data(), got});
      bytes -= static_cast<std::int64_t>(got);
    }
  };
  JournalContents kept;
  kept.exists = true;
  std::int64_t before_records = contents.last.raw_bytes;
  for (const JournalRecord& record : contents.records) before_records -= record.bytes;
  copy(before_records, true);
  kept.last.raw_bytes = before_records;
  for (const JournalRecord& record : contents.records) {
    copy(record.bytes, record.error_rows == 0);
    if (record.error_rows > 0) continue;
    kept.records.push_back(record);
    kept.last.raw_bytes += record.bytes;
  }
  kept.last.length = replacement.Checkpoint();
  Json header = header_;
  header["replacement"] = true;
  journal_->Rewrite(header, kept.records, kept.last);
  return FinishReplacing();
}

// Reads the journal, after finishing a replacement that it speaks of.
JournalContents JobOutput::FinishReplacing() {
  const std::string& output = options_.output;
  const std::string journal = output + ".journal";
  constexpr std::int64_t kAnyLength = std::numeric_limits<std::int64_t>::max();
  const JournalContents contents = ReadJournal(journal, kAnyLength);
  std::error_code none;
  if (contents.exists && contents.header.contains("replacement")) {
    // Without the file, the renaming below had happened already.
    if (std::filesystem::exists(output + kReplacement, none)) {
      std::filesystem::rename(output + kReplacement, output);
      Lock();
    }
    Json header = contents.header;
    header.erase("replacement");
    journal_->Rewrite(header, contents.records, contents.last);
  }
  std::filesystem::remove(output + kReplacement, none);
  return ReadJournal(journal, LengthOf(output));
}

void JobOutput::Write(const Key128& key, std::span<const OutputRow> rows) {
  JournalRecord record;
  record.key = key;
  std::string text;
  for (const OutputRow& row : rows) {
    text += Format(row);
    ++record.rows;
    record.error_rows += row.error ? 1 : 0;
    AddTo(record.hash, KeyOf({row.identity}));
  }
  record.bytes = static_cast<std::int64_t>(text.size());
  rows_ += record.rows;
  error_rows_ += record.error_rows;
  raw_bytes_ += record.bytes;
  AddTo(hash_, record.hash);
  Writing(has_journal(), [&] { file_->Append(text); });
  if (has_journal()) journal_->Add(record);
  unflushed_ = uncommitted_ = true;
}

void JobOutput::Tick() {
  if (!unflushed_ && !uncommitted_) return;
  const Clock::time_point now = Clock::now();
  const auto passed = [&](Clock::time_point since, double seconds) {
    return std::chrono::duration<double>(now - since).count() >= seconds;
  };
  if (has_journal() && uncommitted_ && passed(last_commit_, options_.checkpoint_seconds)) {
    return Checkpoint(false);
  }
  // A flush costs a packed file some of its packing.
  constexpr double kPackedFlushSeconds = 1.0;
  const double wait = packing_ == Packing::kNone ? 0.0 : kPackedFlushSeconds;
  if (unflushed_ && passed(last_flush_, wait)) {
    Writing(has_journal(), [&] { file_->Flush(); });
    last_flush_ = now;
    unflushed_ = false;
  }
}

void JobOutput::Finish(bool complete) { Checkpoint(complete); }

void JobOutput::Checkpoint(bool complete) {
  Writing(has_journal(), [&] {
    const std::int64_t length = file_->Checkpoint();
    if (has_journal()) journal_->Commit({length, raw_bytes_, complete});
  });
  last_flush_ = last_commit_ = Clock::now();
  unflushed_ = uncommitted_ = false;
}

std::string JobOutput::Format(const OutputRow& row) const {
  return csv_ ? CsvText(row) : Dump(row.fields) + "\n";
}

// What has no column stands in the last one as JSON.
std::string JobOutput::CsvText(const OutputRow& row) const {
  OrderedJson more = row.fields;
  std::vector<std::string> cells;
  const auto put = [&](OrderedJson& from, const std::string& name) {
    const auto it = from.find(name);
    if (it == from.end() || it->is_null()) {
      cells.emplace_back();
    } else {
      cells.push_back(it->is_string() ? it->get<std::string>() : Dump(*it));
    }
    if (it != from.end()) from.erase(name);
  };
  for (const char* name : {"id", "question_id", "answer", "finish_reason", "tokens"}) {
    put(more, name);
  }
  for (const std::string& name : options_.columns) put(more, name);
  OrderedJson error = more.contains("error") ? more["error"] : OrderedJson::object();
  more.erase("error");
  for (const char* name : {"kind", "message", "file", "line"}) put(error, name);
  cells.push_back(more.empty() ? "" : Dump(more));
  return CsvRow(cells);
}

std::string JobOutput::answers_hash() const {
  return fmt::format("{:016x}{:016x}", hash_[1], hash_[0]);
}

}  // namespace banyan
