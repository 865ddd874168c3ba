// Writing rows and making them count; what earlier runs left of them. How a row looks is in
// row_format.cc, the file on the disk in locked_output.cc.
#include "tasks/output/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "program/message_text.h"

namespace banyan {
namespace {

using Clock = std::chrono::steady_clock;

// Which columns a table has, and in which order: a job goes on with the same. 2: what people look
// at first stands first, and errors have one column, the last.
constexpr int kTableColumns = 2;

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

// A line for each parameter that was another one; empty: it is the same job.
std::string DifferencesBetween(const Json& before, const Json& now) {
  std::string differences;
  const auto differs = [&](const std::string& name, const Json& was, const Json& is) {
    const auto shown = [](const Json& value) {
      std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
      if (text.size() > 120) text = text.substr(0, 120) + "…";
      return text;
    };
    differences += fmt::format("\n  {}: was {}, is {}", name, shown(was), shown(is));
  };
  for (const char* name : {"version", "task"}) {
    const Json was = before.value(name, Json());
    if (was != now.at(name)) differs(name, was, now.at(name));
  }
  for (const auto& [group, prefix] : {std::pair("model", "model's "), {"parameters", ""}}) {
    const Json was = before.value(group, Json::object());
    const Json& is = now.at(group);
    for (const auto& [name, value] : is.items()) {
      const Json old = was.value(name, Json());
      if (old != value) differs(prefix + name, old, value);
    }
    for (const auto& [name, value] : was.items()) {
      if (!is.contains(name)) differs(prefix + name, value, Json());
    }
  }
  return differences;
}

// Refuses an output that was edited, and a journal of which nothing is left though it had
// more.
void CheckUnchanged(const std::string& output, const JournalContents& journal,
                    const OutputCheck& check) {
  const bool unknown =
      journal.damaged && journal.records.empty() && check.length > check.kept_bytes();
  if (!check.changed && !unknown) return;
  Throw(ErrorKind::kUsage,
        "{}: {} from byte {} on, after {} rows. To keep it as it is, give another output; to keep "
        "these {} rows and write the rest again, add --resume --overwrite; to begin anew, "
        "--overwrite alone",
        output,
        check.changed ? "was changed since it was written: it is not what its journal says"
                      : "its journal is damaged and counts nothing",
        check.kept_bytes(), check.rows, check.rows);
}

// Places in the journal.
std::vector<size_t> RecordsWithoutErrors(const JournalContents& journal) {
  std::vector<size_t> kept;
  for (size_t i = 0; i < journal.records.size(); ++i) {
    if (journal.records[i].error_rows == 0) kept.push_back(i);
  }
  return kept;
}

}  // namespace

JobOutput::JobOutput(const JobOptions& options, TableColumns columns, Json header)
    : options_(options),
      header_(std::move(header)),
      format_(options, std::move(columns)),
      packing_(PackingOf(options.output)),
      copy_(options.rows_copy) {
  header_["parameters"]["output format"] = format_.name();
  header_["parameters"]["columns"] = options.columns;
  for (const InputColumn& column : format_.input_columns()) {
    header_["parameters"]["input columns"].push_back(column.shown);
  }
  if (format_.is_table()) {
    header_["parameters"]["--csv-safe"] = options.csv_safe;
    header_["parameters"]["--delimiter"] =
        format_.delimiter() == ',' ? std::string() : std::string(1, format_.delimiter());
    header_["parameters"]["table columns"] = kTableColumns;
  }
  header_["parameters"]["ordered"] = options.ordered;
  header_["version"] = 3;  // 3: a record is known by its id and its line
  last_flush_ = last_commit_ = Clock::now();
  std::error_code none;
  const bool device = std::filesystem::exists(options.output, none) &&
                      !std::filesystem::is_regular_file(options.output, none);
  if (options.output == "-" || device) {  // nothing can be cut or taken up again there
    if (options.resume) {
      Throw(ErrorKind::kUsage, "{}: cannot resume: it is no file", options.output);
    }
    file_ = std::make_unique<OutputFile>(options.output, packing_, options.stop);
    for_terminal_ = ::isatty(STDOUT_FILENO) == 1 && options.output == "-";
    Begin();
    return;
  }
  locked_ = std::make_unique<LockedOutput>(options.output, packing_);
  journal_ = std::make_unique<JournalWriter>(options.output + ".journal", locked_->journal_mode());
  Open();
}

// An empty journal first, then the output is emptied: never an old journal beside new rows.
void JobOutput::Begin() {
  Writing(false, [&] {
    if (has_journal()) {
      JournalContents empty;
      empty.header = header_;
      empty.commits.push_back({0, 0, false, ContentHash().Value(), 0, {}});
      journal_->Rewrite(empty);
      file_ = std::make_unique<OutputFile>(options_.output, packing_);
    }
    WriteTableHeader();
    if (has_journal()) Checkpoint(false);
  });
}

// What a table begins with, unless it has begun.
void JobOutput::WriteTableHeader() {
  if (!format_.is_table() || raw_bytes_ > 0) return;
  const std::string line = format_.Header();
  raw_bytes_ += static_cast<std::int64_t>(line.size());
  file_->Append(line);
}

void JobOutput::Write(const Key128& key, std::span<const OutputRow> rows) {
  JournalRecord record;
  record.key = key;
  std::string text;
  for (const OutputRow& row : rows) {
    if (row.dropped) continue;
    text += for_terminal_ ? Visible(format_.Line(row)) : format_.Line(row);
    ++record.rows;
    record.error_rows += row.error ? 1 : 0;
    AddTo(record.hash, KeyOf({row.identity}));
  }
  record.bytes = static_cast<std::int64_t>(text.size());
  record.content = RowsContent(text);
  rows_ += record.rows;
  error_rows_ += record.error_rows;
  dropped_ += record.rows == 0 ? 1 : 0;
  raw_bytes_ += record.bytes;
  AddTo(hash_, record.hash);
  Writing(has_journal(), [&] { file_->Append(text); });
  if (has_journal()) journal_->Add(record);
  copy_.Add(rows);
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

void JobOutput::Finish(bool complete, const Key128& input) {
  if (!finished_) Checkpoint(complete, input);
  copy_.Flush();
}

void JobOutput::Checkpoint(bool complete, const Key128& input) {
  Writing(has_journal(), [&] {
    const std::int64_t length = file_->Checkpoint();
    if (has_journal())
      journal_->Commit({length, raw_bytes_, complete, file_->content().Value(), 0, input});
  });
  // Rows in a file that no name leads to any more would be lost.
  if (has_journal() && !(locked_->StillThere() && journal_->StillThere())) {
    Throw(ErrorKind::kIo,
          "{}: the output or its journal was removed or replaced while the job was writing it; the "
          "job stops, since its rows would be lost",
          options_.output);
  }
  last_flush_ = last_commit_ = Clock::now();
  unflushed_ = uncommitted_ = false;
}

std::string JobOutput::answers_hash() const {
  return fmt::format("{:016x}{:016x}", hash_[1], hash_[0]);
}

// --- What earlier runs left

void JobOutput::Open() {
  const std::string& output = options_.output;
  if (options_.overwrite && !options_.resume) {
    locked_->ForgetReplacement();
    return Begin();
  }
  const JournalContents journal = locked_->FinishReplacing(*journal_);
  std::error_code none;
  const bool has_rows = std::filesystem::file_size(output, none) > 0;
  if (!journal.usable()) {
    if (has_rows && !options_.overwrite) RefuseUnknownOutput(output, journal);
    return Begin();
  }
  const OutputCheck check = CheckOutput(output, packing_, format_.Header(), journal);
  const std::string differences = DifferencesBetween(journal.header, header_);
  if (options_.resume) {
    if (!differences.empty()) {
      Throw(ErrorKind::kUsage,
            "{}: cannot resume, because its rows were made with other parameters:{}\nGive the same "
            "ones, or another output.",
            output, differences);
    }
    if (!options_.overwrite) CheckUnchanged(output, journal, check);
    return Resume(journal, check);
  }
  const bool kept_none = journal.complete() && journal.raw_bytes() == 0 && !journal.records.empty();
  if (!has_rows && !kept_none) return Begin();
  CheckUnchanged(output, journal, check);
  if (!journal.complete() || check.records < journal.records.size()) {
    Throw(ErrorKind::kUsage,
          "{}: holds an unfinished job of {} records; go on with --resume, or begin anew with "
          "--overwrite",
          output, check.records);
  }
  if (check.kept_bytes() < check.length) {
    Throw(ErrorKind::kUsage,
          "{}: the last {} bytes are not its job's own; give another output, or begin anew with "
          "--overwrite",
          output, check.length - check.kept_bytes());
  }
  TakeUp(journal);
  if (!differences.empty()) {
    Throw(ErrorKind::kUsage,
          "{}: holds the {} of a finished job, which was another one:{}\nGive another output (-o), "
          "or replace it with --overwrite.",
          output, Plural(rows_, "row"), differences);
  }
  finished_ = true;
}

void JobOutput::CheckSameInput(const InputRow* row, std::int64_t missing) const {
  std::string found;
  if (row != nullptr) {
    found = fmt::format("this input has {}{}, which that job did not read (--resume would add it)",
                        row->file, row->line > 0 ? fmt::format(", line {}", row->line) : "");
  } else if (missing > 0) {
    found = fmt::format("{} of it {} not in this input{}", Plural(missing, "record"),
                        missing == 1 ? "is" : "are",
                        options_.limit >= 0 ? fmt::format(" (--limit {})", options_.limit) : "");
  } else {
    return;
  }
  Throw(ErrorKind::kUsage,
        "{}: holds the {} of a finished job, and {}.\nGive another output (-o), or replace it with "
        "--overwrite.",
        options_.output, Plural(rows_, "row"), found);
}

// What earlier runs did counts.
void JobOutput::TakeUp(const JournalContents& journal) {
  for (const JournalRecord& record : journal.records) done_.Insert(record.key);
  Count(journal);
}

// What the output has now.
void JobOutput::Count(const JournalContents& journal) {
  rows_ = error_rows_ = dropped_ = 0;
  hash_ = {};
  for (const JournalRecord& record : journal.records) {
    rows_ += record.rows;
    error_rows_ += record.error_rows;
    dropped_ += record.rows == 0 ? 1 : 0;
    AddTo(hash_, record.hash);
  }
  raw_bytes_ = journal.raw_bytes();
}

void JobOutput::Resume(JournalContents journal, const OutputCheck& check) {
  if (check.length > check.kept_bytes() && options_.notice) {
    options_.notice(
        fmt::format("{}: cut {} bytes at its end, which its journal does not count: rows that were "
                    "being written when the job stopped, or not its own",
                    options_.output, check.length - check.kept_bytes()));
  }
  file_ = std::make_unique<OutputFile>(options_.output, packing_, check.kept);
  journal.header = header_;
  if (check.records < journal.records.size() || journal.commits.empty()) {
    journal.records.resize(check.records);
    std::erase_if(journal.commits,
                  [&](const JournalCommit& commit) { return commit.length >= check.kept_bytes(); });
    journal.commits.push_back(
        {check.kept_bytes(), check.raw_bytes, false, check.kept.Value(), check.records, {}});
  }
  for (JournalCommit& commit : journal.commits) commit.complete = false;
  if (options_.retry_errors) {
    const std::vector<size_t> kept = RecordsWithoutErrors(journal);
    if (kept.size() < journal.records.size()) journal = ReplaceBy(journal, kept);
  }
  TakeUp(journal);
  journal_->Rewrite(journal);
  WriteTableHeader();
}

void JobOutput::KeepOnly(const std::vector<Key128>& wanted, const Keeping& keeping) {
  if (!has_journal() || finished_ || (done_before() == 0 && !keeping.reordered)) return;
  Checkpoint(false);
  const JournalContents journal = ReadJournal(options_.output + ".journal");
  std::vector<std::pair<Key128, size_t>> places;  // in the output, sorted by key
  for (size_t i = 0; i < journal.records.size(); ++i)
    places.emplace_back(journal.records[i].key, i);
  std::ranges::sort(places);
  std::vector<size_t> kept;
  for (const Key128& key : wanted) {
    const auto place = std::ranges::lower_bound(places, std::pair(key, size_t{0}));
    if (place != places.end() && place->first == key) kept.push_back(place->second);
  }
  if (keeping.others) {
    std::vector<bool> is_kept(journal.records.size(), false);
    for (const size_t record : kept) is_kept[record] = true;
    for (size_t i = 0; i < is_kept.size(); ++i) {
      if (!is_kept[i]) kept.push_back(i);
    }
  }
  const bool gone = kept.size() < journal.records.size();
  if (!options_.ordered) std::ranges::sort(kept);
  if (!gone && std::ranges::is_sorted(kept)) return;
  if (done_before() == 0) copy_.Reorder(kept);  // else it has the rows of this run alone
  const std::int64_t rows_before = rows_, errors_before = error_rows_;
  const JournalContents replaced = ReplaceBy(journal, kept);
  Count(replaced);
  journal_->Rewrite(replaced);
  removed_ = {rows_before - rows_, errors_before - error_rows_};
  if (!gone || !options_.notice) return;
  options_.notice(fmt::format(
      "{}: {} of an earlier run {} removed: their records are not in this input any "
      "more, or were changed",
      options_.output, Plural(removed_.rows, "row"), removed_.rows == 1 ? "was" : "were"));
}

JournalContents JobOutput::ReplaceBy(const JournalContents& journal,
                                     const std::vector<size_t>& records) {
  LockedOutput::Replaced replaced = locked_->ReplaceBy(journal, records, *journal_);
  file_ = std::move(replaced.file);
  return std::move(replaced.journal);
}

}  // namespace banyan
