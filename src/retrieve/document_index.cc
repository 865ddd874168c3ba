// Indexes in folders: made from files, replaced as a whole, opened and searched.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "banyan/retrieval.h"
#include "base/byte_source.h"
#include "base/error.h"
#include "base/json_row.h"
#include "base/line_reader.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "retrieve/bm25.h"
#include "retrieve/index_file.h"
#include "retrieve/passages.h"
#include "retrieve/words.h"
#include "text/utf8.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "index.banyan";
constexpr size_t kMaxRowBytes = 256u << 20;

std::vector<std::string> FilesOf(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    if (!fs::exists(input)) Throw(ErrorKind::kNotFound, "{}: no such file or folder", input);
    if (!fs::is_directory(input)) {
      files.push_back(input);
      continue;
    }
    const size_t first = files.size();
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(input)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_regular_file() && !name.starts_with(".")) files.push_back(entry.path().string());
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(first), files.end());
  }
  return files;
}

class Collector {
 public:
  Collector(const IndexOptions& options, IndexReceipt& receipt)
      : options_(options), receipt_(receipt) {}

  void AddFile(const std::string& file) {
    if (file.ends_with(".jsonl") || file.ends_with(".jsonl.gz") || file.ends_with(".jsonl.zst")) {
      return AddRows(file);
    }
    if (fs::path(file).filename() == kFileName) return;  // an index is no document
    std::ifstream stream(file, std::ios::binary);
    std::ostringstream bytes;
    bytes << stream.rdbuf();
    if (!stream) return LeaveOut(file, "cannot be read");
    std::string text = std::move(bytes).str();
    if (!IsValidUtf8(text) || text.find('\0') != std::string::npos) {
      return LeaveOut(file, "is no text in UTF-8");
    }
    Add({file, "", std::move(text)}, file);
  }

  std::vector<Passage> Take() { return std::move(passages_); }

 private:
  void AddRows(const std::string& file) {
    LineReader reader(OpenByteSource(file, nullptr), kMaxRowBytes);
    std::string line;
    while (reader.Next(line)) {
      const std::string where = fmt::format("{}, line {}", file, reader.number());
      if (line.find_first_not_of(" \t\r\n") == std::string::npos && !reader.too_long()) continue;
      if (reader.too_long() || !IsValidUtf8(line)) {
        LeaveOut(where, "is too long or no UTF-8");
        continue;
      }
      try {
        const Json row = ParseJsonRow(line);
        const auto text = [&](const char* name) {
          const bool there = row.is_object() && row.contains(name) && row.at(name).is_string();
          return there ? row.at(name).get<std::string>() : std::string();
        };
        const Json id = row.is_object() ? row.value("id", Json()) : Json();
        std::string name = id.is_string() ? id.get<std::string>()
                           : IsNumber(id) ? DumpJson(id)
                                          : fmt::format("{}:{}", file, reader.number());
        Add({std::move(name), text("title"), text("text")}, where);
      } catch (const Error&) {
        LeaveOut(where, "is no valid JSON");
      }
    }
  }

  void Add(const WholeDocument& document, const std::string& where) {
    const size_t before = passages_.size();
    AppendPassages(document, options_.passage_words, passages_);
    if (passages_.size() == before) return LeaveOut(where, "has no text");
    ++receipt_.documents;
  }

  void LeaveOut(const std::string& where, const char* why) {
    ++receipt_.left_out;
    if (options_.notice) options_.notice(fmt::format("{} {}: left out", where, why));
  }

  const IndexOptions& options_;
  IndexReceipt& receipt_;
  std::vector<Passage> passages_;
};

std::vector<std::string> SearchedWords(const Passage& passage) {
  std::vector<std::string> words = WordsOf(passage.title);
  std::vector<std::string> more = WordsOf(passage.text);
  std::ranges::move(more, std::back_inserter(words));
  return words;
}

// Whole or not at all: whoever opens the index sees the old one or the new one.
void Replace(const fs::path& directory, const std::string& bytes) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) {
    Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", directory.string(), failed.message());
  }
  const fs::path target = directory / kFileName;
  const fs::path fresh = directory / fmt::format("{}.{}", kFileName, ::getpid());
  fs::remove(fresh, failed);
  try {
    const std::unique_ptr<OutputFile> file = OutputFile::Create(fresh.string(), Packing::kNone);
    file->Append(bytes);
    file->Checkpoint();
    fs::rename(fresh, target);
  } catch (const fs::filesystem_error& e) {
    fs::remove(fresh, failed);
    Throw(ErrorKind::kIo, "{}: cannot write the index: {}", target.string(), e.code().message());
  } catch (...) {
    fs::remove(fresh, failed);
    throw;
  }
  const int folder = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);  // so that the new name outlives a power cut
  ::close(folder);
}

}  // namespace

struct DocumentIndex::Parts {
  std::vector<Passage> passages;
  Bm25 bm25;
  std::string fingerprint;
};

DocumentIndex::DocumentIndex(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DocumentIndex::~DocumentIndex() = default;

IndexReceipt DocumentIndex::Build(const std::string& directory,
                                  const std::vector<std::string>& inputs,
                                  const IndexOptions& options) {
  IndexReceipt receipt;
  Collector collector(options, receipt);
  for (const std::string& file : FilesOf(inputs)) collector.AddFile(file);
  const std::vector<Passage> passages = collector.Take();
  if (passages.empty()) Throw(ErrorKind::kInput, "no document with text was found");
  std::vector<std::vector<std::string>> texts;
  for (const Passage& passage : passages) texts.push_back(SearchedWords(passage));
  const std::vector<Bm25::Word> words = Bm25(texts, Bm25Options()).Words();
  receipt.passages = static_cast<std::int64_t>(passages.size());
  receipt.words = static_cast<std::int64_t>(words.size());
  Replace(directory, IndexBytes(passages, words));
  return receipt;
}

std::shared_ptr<const DocumentIndex> DocumentIndex::Open(const std::string& directory) {
  const std::string path = (fs::path(directory) / kFileName).string();
  if (!fs::exists(path)) {
    Throw(ErrorKind::kNotFound, "{}: no index there; make one with 'banyan rag index'", directory);
  }
  const MappedFile file(path);
  IndexContents contents = ReadIndexBytes(file.bytes(), path);
  auto parts = std::make_unique<Parts>();
  parts->passages = std::move(contents.passages);
  parts->bm25 =
      Bm25::FromWords(static_cast<std::int64_t>(parts->passages.size()), std::move(contents.words));
  parts->fingerprint = std::move(contents.fingerprint);
  return std::make_shared<const DocumentIndex>(std::move(parts));
}

std::int64_t DocumentIndex::size() const {
  return static_cast<std::int64_t>(parts_->passages.size());
}

const Passage& DocumentIndex::at(std::int32_t passage) const {
  return parts_->passages.at(static_cast<size_t>(passage));
}

std::vector<FoundPassage> DocumentIndex::Search(const std::string& query, size_t count) const {
  std::vector<FoundPassage> found;
  for (const ScoredDocument& best : BestDocuments(parts_->bm25.Scores(WordsOf(query)), count)) {
    found.push_back({best.document, best.score});
  }
  return found;
}

const std::string& DocumentIndex::fingerprint() const { return parts_->fingerprint; }

}  // namespace banyan
