#include "retrieve/index_changes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/error.h"
#include "retrieve/corpus.h"
#include "retrieve/index_build.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNanoseconds = 1'000'000'000;
constexpr size_t kNamedFiles = 3;

std::int64_t Nanoseconds(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * kNanoseconds + time.tv_nsec;
}

// As an update of the index would have any.
bool HasDocuments(const std::string& file) {
  std::vector<Passage> passages;
  DocumentVisitor visitor;
  visitor.document = [&](const WholeDocument& document) {
    if (passages.empty()) AppendPassages(document, 1 << 20, passages);
  };
  visitor.left_out = [](const std::string&, const std::string&) {};
  VisitDocuments(file, visitor);
  return !passages.empty();
}

}  // namespace

bool IndexChanges::any() const { return !changed.empty() || !gone.empty() || !added.empty(); }

std::string IndexChanges::Text() const {
  std::string counts, names;
  size_t named = 0;
  for (const auto& [files, what] :
       {std::pair(&changed, "changed"), {&gone, "gone"}, {&added, "new"}}) {
    if (files->empty()) continue;
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", files->size(), what);
    for (const std::string& file : *files) {
      if (named++ < kNamedFiles) names += (names.empty() ? "" : ", ") + file;
    }
  }
  if (named > kNamedFiles) names += ", …";
  if (named == 0) return {};
  return fmt::format(
      "{0}: the index is older than its documents: {1} ({2}); answers come from what it has; "
      "'banyan rag index {0}' brings it up to date",
      index, counts, names);
}

IndexedFiles::IndexedFiles(std::string directory, std::vector<IndexedFile> files,
                           std::vector<std::string> inputs)
    : directory_(std::move(directory)), files_(std::move(files)), inputs_(std::move(inputs)) {}

IndexedFiles::Seen IndexedFiles::Look(const std::string& place, const Digest* hash) const {
  struct stat status {};
  if (::stat(place.c_str(), &status) != 0) return Seen::kUnreadable;
  const Signature signature{status.st_dev, status.st_ino, status.st_size,
                            Nanoseconds(status.st_mtim), Nanoseconds(status.st_ctim)};
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(place);
    if (found != known_.end() && found->second.signature == signature) return found->second.seen;
  }
  Seen seen = Seen::kUnreadable;
  try {
    if (hash == nullptr) {
      seen = HasDocuments(place) ? Seen::kDocuments : Seen::kNoDocuments;
    } else {
      seen = HashOfFile(place) == *hash ? Seen::kSame : Seen::kChanged;
    }
  } catch (const Error&) {  // whoever reads it says why it cannot be
  }
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  // A file that was just written may be written again without another time.
  if (Nanoseconds(now) - Nanoseconds(status.st_ctim) > kNanoseconds) {
    const std::lock_guard lock(mutex_);
    known_.insert_or_assign(place, Known{signature, seen});
  }
  return seen;
}

SourceState IndexedFiles::StateOf(size_t file) const {
  const IndexedFile& indexed = files_.at(file);
  const Seen seen = Look(PlaceOfFile(directory_, indexed.path), &indexed.hash);
  return seen == Seen::kSame      ? SourceState::kSame
         : seen == Seen::kChanged ? SourceState::kChanged
                                  : SourceState::kGone;  // for whoever would read it
}

std::vector<std::string> IndexedFiles::NewFiles() const {
  std::vector<std::string> inputs, added;
  for (const std::string& input : inputs_) {
    std::error_code none;
    std::string place = PlaceOfFile(directory_, input);
    if (fs::exists(place, none)) inputs.push_back(std::move(place));
  }
  FoundFiles found;
  try {
    found = FilesOf(inputs);
  } catch (const Error&) {  // an input that went meanwhile
    return added;
  }
  for (const std::string& file : found.files) {
    const std::string path = PathInIndex(directory_, file);
    const auto known = std::ranges::lower_bound(files_, path, {}, &IndexedFile::path);
    if (known != files_.end() && known->path == path) continue;
    if (Look(file, nullptr) == Seen::kDocuments) added.push_back(file);
  }
  return added;
}

IndexChanges IndexedFiles::Changes() const {
  IndexChanges changes;
  changes.index = directory_;
  for (size_t i = 0; i < files_.size(); ++i) {
    const SourceState state = StateOf(i);
    if (state == SourceState::kSame) continue;
    auto& list = state == SourceState::kGone ? changes.gone : changes.changed;
    list.push_back(PlaceOfFile(directory_, files_[i].path));
  }
  changes.added = NewFiles();
  return changes;
}

}  // namespace banyan
