// How a job finds its output: begun by nobody, in another's hands, left half done, or with error
// rows that are to be tried again.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/byte_source.h"
#include "base/error.h"
#include "tasks/output.h"

namespace banyan {
namespace {

constexpr const char* kReplacement = ".replacement";

std::int64_t LengthOf(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : static_cast<std::int64_t>(size);
}

}  // namespace

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

}  // namespace banyan
