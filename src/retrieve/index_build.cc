// Files compared with what an index has, read, divided into passages, weighed and embedded.
#include "retrieve/index_build.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "retrieve/bm25.h"
#include "retrieve/corpus.h"
#include "retrieve/vector_search.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr int kPassageWords = 200;

fs::path Absolute(const std::string& path) { return fs::absolute(path).lexically_normal(); }

// Whether `path` is `folder` or stands below it; both absolute and normal.
bool IsBelow(const fs::path& path, fs::path folder) {
  if (!folder.has_filename()) folder = folder.parent_path();  // "notes/"
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end();
}

bool IsBelowAny(const fs::path& path, const std::vector<fs::path>& folders) {
  return std::ranges::any_of(folders, [&](const auto& folder) { return IsBelow(path, folder); });
}

// A document with its passages.
struct DividedDocument {
  IndexedDocument document;
  std::vector<Passage> passages;
};

// A file with its documents; `file` of these is not set.
struct DividedFile {
  Digest hash{};
  std::vector<DividedDocument> documents;
};

using DividedFiles = std::map<std::string, DividedFile>;  // by path in the index

DividedFiles FilesOfIndex(const IndexContents* index) {
  DividedFiles files;
  if (index == nullptr) return files;
  for (const IndexedFile& file : index->files) files[file.path].hash = file.hash;
  auto passage = index->passages.begin();
  for (const IndexedDocument& document : index->documents) {
    const auto end = passage + static_cast<std::ptrdiff_t>(document.passages);
    files[index->files[document.file].path].documents.push_back(
        {document, std::vector<Passage>(passage, end)});
    passage = end;
  }
  return files;
}

Digest HashOfDocument(const WholeDocument& document) {
  Sha256 hash;
  hash.Add(std::uint64_t{document.title.size()}).Add(document.title).Add(document.text);
  return hash.Finish();
}

class Update {
 public:
  Update(const std::string& directory, const IndexContents* earlier, const IndexOptions& options,
         IndexReceipt& receipt)
      : directory_(Absolute(directory)),
        before_(FilesOfIndex(earlier)),
        options_(options),
        receipt_(receipt) {
    const int words_before = earlier ? earlier->passage_words : kPassageWords;
    words_ = options.passage_words > 0 ? options.passage_words : words_before;
    divides_anew_ = earlier && words_ != earlier->passage_words;
    if (earlier) inputs_.insert(earlier->inputs.begin(), earlier->inputs.end());
  }

  void LookAt(const std::vector<std::string>& inputs) {
    std::vector<std::string> there;
    std::vector<fs::path> covered, unknown;
    for (const std::string& input : inputs) {
      covered.push_back(Absolute(input));
      if (fs::exists(fs::status(input))) {
        there.push_back(input);
        inputs_.insert(PathInIndex(directory_.string(), input));
      } else if (KnowsBelow(covered.back())) {
        inputs_.erase(PathInIndex(directory_.string(), input));  // it was there
      } else {
        Throw(ErrorKind::kNotFound, "{}: no such file or folder", input);
      }
    }
    const FoundFiles found = FilesOf(there);
    for (const auto& [path, why] : found.unreadable) {
      LeaveOut(path, why);
      unknown.push_back(Absolute(path));
    }
    for (const auto& [path, why] : found.no_documents) left_out_.Add(path, why);
    for (const std::string& file : found.files) Look(file);
    for (auto& [path, file] : before_) {
      if (after_.contains(path)) continue;
      const fs::path place = (directory_ / path).lexically_normal();
      if (IsBelowAny(place, covered) && !IsBelowAny(place, unknown)) {
        receipt_.gone_documents += static_cast<std::int64_t>(file.documents.size());
      } else if (!divides_anew_ || !Read(place.string(), path, file.hash)) {
        Keep(path, file);
      }
    }
    for (const std::string& line : left_out_.Lines()) {
      if (options_.notice) options_.notice(line);
    }
  }

  IndexContents Finish() {
    IndexContents contents;
    contents.passage_words = words_;
    contents.inputs.assign(inputs_.begin(), inputs_.end());
    for (auto& [path, file] : after_) {
      if (file.documents.empty()) continue;
      for (DividedDocument& one : file.documents) {
        one.document.file = contents.files.size();
        one.document.passages = one.passages.size();
        contents.documents.push_back(std::move(one.document));
        std::ranges::move(one.passages, std::back_inserter(contents.passages));
      }
      contents.files.push_back({path, file.hash});
    }
    if (contents.passages.empty()) Throw(ErrorKind::kInput, "no document with text was found");
    receipt_.documents = static_cast<std::int64_t>(contents.documents.size());
    receipt_.passages = static_cast<std::int64_t>(contents.passages.size());
    return contents;
  }

 private:
  bool KnowsBelow(const fs::path& place) const {
    return std::ranges::any_of(before_, [&](const auto& file) {
      return IsBelow((directory_ / file.first).lexically_normal(), place);
    });
  }

  void LeaveOut(const std::string& place, const std::string& why) {
    ++receipt_.left_out;
    left_out_.Add(place, why);
  }

  void Keep(const std::string& path, DividedFile& file) {
    receipt_.kept_documents += static_cast<std::int64_t>(file.documents.size());
    after_[path] = std::move(file);
  }

  void Look(const std::string& file) {
    const std::string path = PathInIndex(directory_.string(), file);
    if (after_.contains(path)) return;  // given twice
    const auto before = before_.find(path);
    Digest hash;
    try {
      hash = HashOfFile(file);
    } catch (const Error& e) {
      const bool known = before != before_.end();
      LeaveOut(file,
               WithoutName(e.what(), file) + (known ? "; what the index has of it stays" : ""));
      if (known) Keep(path, before->second);
      return;
    }
    if (before != before_.end() && before->second.hash == hash && !divides_anew_) {
      Keep(path, before->second);
    } else {
      Read(file, path, hash);
    }
  }

  // Reads and divides a file. False: it is not there.
  bool Read(const std::string& file, const std::string& path, const Digest& hash) {
    if (!fs::exists(fs::status(file))) return false;
    DividedFile& read = after_[path];
    read.hash = hash;
    DocumentVisitor visitor;
    visitor.document = [&](const WholeDocument& document) {
      DividedDocument divided;
      divided.document.id = document.id;
      divided.document.hash = HashOfDocument(document);
      AppendPassages(document, words_, divided.passages);
      if (!divided.passages.empty()) read.documents.push_back(std::move(divided));
    };
    visitor.left_out = [&](const std::string& place, const std::string& why) {
      LeaveOut(place, why);
    };
    VisitDocuments(file, visitor);
    Compare(before_.find(path), read);
    return true;
  }

  // By ids, which are those of rows, or the file's own.
  void Compare(DividedFiles::const_iterator before, const DividedFile& after) {
    std::multimap<std::string, const IndexedDocument*> known;
    if (before != before_.end()) {
      const auto& documents = before->second.documents;
      const bool single = documents.size() == 1 && after.documents.size() == 1;
      for (const DividedDocument& one : documents) {
        // A file that is called otherwise now (./a for a) is the same document.
        known.emplace(single ? after.documents[0].document.id : one.document.id, &one.document);
      }
    }
    for (const DividedDocument& one : after.documents) {
      const auto found = known.find(one.document.id);
      if (found == known.end()) {
        ++receipt_.new_documents;
        continue;
      }
      const bool same = found->second->hash == one.document.hash;
      ++(same ? receipt_.kept_documents : receipt_.changed_documents);
      known.erase(found);
    }
    receipt_.gone_documents += static_cast<std::int64_t>(known.size());
  }

  fs::path directory_;
  DividedFiles before_, after_;
  std::set<std::string> inputs_;
  const IndexOptions& options_;
  IndexReceipt& receipt_;
  LeftOutFiles left_out_;
  int words_ = kPassageWords;
  bool divides_anew_ = false;
};

constexpr size_t kTokensAtOnce = 1 << 15;  // between two reports of progress

// Writes the vectors of one passage to its place.
class VectorTableWriter {
 public:
  VectorTableWriter(PassageVectors& vectors, size_t passages) : vectors_(vectors) {
    vectors.dense.resize(passages * static_cast<size_t>(vectors.encoder.dimensions));
    if (vectors.encoder.sparse) vectors.sparse.resize(passages);
  }

  void Put(size_t passage, std::span<const float> dense, SparseVector sparse) {
    const size_t dimensions = dense.size();
    std::ranges::copy(dense,
                      vectors_.dense.begin() + static_cast<std::ptrdiff_t>(passage * dimensions));
    if (vectors_.encoder.sparse) vectors_.sparse[passage] = std::move(sparse);
  }

 private:
  PassageVectors& vectors_;
};

// The earlier index's passages by what they show.
std::unordered_map<std::string, size_t> KnownTexts(const IndexContents* earlier,
                                                   const IndexEncoder& encoder) {
  std::unordered_map<std::string, size_t> known;
  if (earlier == nullptr || !earlier->vectors) return known;
  const IndexEncoder& before = earlier->vectors->encoder;
  if (before.fingerprint != encoder.fingerprint || before.dimensions != encoder.dimensions ||
      before.sparse != encoder.sparse) {
    return known;
  }
  for (size_t i = 0; i < earlier->passages.size(); ++i) {
    known.emplace(earlier->passages[i].Shown(), i);
  }
  return known;
}

// Documents and passages of the index after looking at `inputs`, without words and vectors. Files
// below the inputs are read unless they have the bytes that `earlier` (may be null) knows; files
// that are gone are dropped; files elsewhere stay as they are. Files are in the order of their
// paths, so an index that grew equals one built at once. Counts in the receipt.
IndexContents LookAgain(const std::string& directory, const std::vector<std::string>& inputs,
                        const IndexContents* earlier, const IndexOptions& options,
                        IndexReceipt& receipt) {
  Update update(directory, earlier, options, receipt);
  update.LookAt(inputs);
  return update.Finish();
}

// Vectors of all passages by the options' encoder: taken from `earlier` (may be null) where it has
// the same text from the same encoder, computed otherwise. Counts both in the receipt.
PassageVectors EmbedPassages(const std::vector<Passage>& passages, const IndexContents* earlier,
                             const IndexOptions& options, IndexReceipt& receipt) {
  Encoder& encoder = *options.encoder.encoder;
  if (!encoder.embeds()) {
    Throw(ErrorKind::kUnsupported,
          "--encoder: {} is a reranker and has no vectors; it goes to rag --reranker",
          options.encoder.name);
  }
  PassageVectors vectors;
  vectors.search = options.vectors;
  vectors.encoder = {options.encoder.name, options.encoder.fingerprint, encoder.dimensions(),
                     encoder.has_sparse()};
  VectorTableWriter writer(vectors, passages.size());
  const auto known = KnownTexts(earlier, vectors.encoder);
  std::vector<std::vector<TokenId>> texts;
  std::vector<size_t> places;
  size_t tokens = 0;
  const auto embed = [&] {
    EmbedOptions wanted;
    wanted.colbert = false;
    std::vector<Embedding> made = encoder.Embed(texts, wanted);
    for (size_t i = 0; i < made.size(); ++i) {
      writer.Put(places[i], made[i].dense, std::move(made[i].sparse));
    }
    receipt.embedded += static_cast<std::int64_t>(made.size());
    texts.clear();
    places.clear();
    tokens = 0;
    if (options.progress) {
      options.progress(receipt.embedded + receipt.kept, static_cast<std::int64_t>(passages.size()));
    }
  };
  for (size_t p = 0; p < passages.size(); ++p) {
    const std::string shown = passages[p].Shown();
    if (const auto found = known.find(shown); found != known.end()) {
      const PassageVectors& old = *earlier->vectors;
      const VectorTable table{old.dense, static_cast<size_t>(old.encoder.dimensions)};
      writer.Put(p, table.at(found->second),
                 old.encoder.sparse ? old.sparse[found->second] : SparseVector());
      ++receipt.kept;
      continue;
    }
    texts.push_back(EncoderTokens(encoder, shown));
    places.push_back(p);
    tokens += texts.back().size();
    if (tokens >= kTokensAtOnce) embed();
  }
  if (!texts.empty()) embed();
  if (options.vectors != VectorSearch::kExact) {
    vectors.faiss = FaissBytes(options.vectors,
                               {vectors.dense, static_cast<size_t>(vectors.encoder.dimensions)});
  }
  return vectors;
}

std::vector<Bm25::Word> WeighWords(const std::vector<Passage>& passages) {
  std::vector<std::vector<std::string>> texts;
  for (const Passage& passage : passages) texts.push_back(WordsOf(passage.Shown()));
  return Bm25(texts, Bm25Options()).Words();
}

bool SameVectors(const IndexContents& index, const IndexOptions& options) {
  if (!index.vectors || !options.encoder) return !index.vectors && !options.encoder;
  return index.vectors->encoder.fingerprint == options.encoder.fingerprint &&
         index.vectors->search == options.vectors;
}

}  // namespace

Digest HashOfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Throw(ErrorKind::kIo, "cannot open it: {}", std::generic_category().message(errno));
  Sha256 hash;
  std::vector<char> buffer(size_t{1} << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.Add(std::string_view(buffer.data(), static_cast<size_t>(file.gcount())));
  }
  if (file.bad() || !file.eof()) Throw(ErrorKind::kIo, "cannot read it to its end");
  return hash.Finish();
}

std::string PlaceOfFile(const std::string& directory, const std::string& path_in_index) {
  const fs::path place = (Absolute(directory) / path_in_index).lexically_normal();
  return place.lexically_proximate(fs::current_path()).string();
}

std::string PathInIndex(const std::string& directory, const std::string& path) {
  fs::path normal = Absolute(path);
  if (!normal.has_filename()) normal = normal.parent_path();
  return normal.lexically_relative(Absolute(directory)).string();
}

IndexReceipt MakeIndex(const LockedFolder& folder, const std::vector<std::string>& inputs,
                       const IndexContents* earlier, const IndexContents* known,
                       const IndexOptions& options) {
  IndexReceipt receipt;
  if (options.vectors != VectorSearch::kExact && !HasFaiss()) {
    FaissBytes(options.vectors, {});  // says so before hours of work
  }
  IndexContents contents = LookAgain(folder.path(), inputs, earlier, options, receipt);
  const bool same_documents =
      earlier != nullptr &&
      receipt.new_documents + receipt.changed_documents + receipt.gone_documents == 0 &&
      contents.passage_words == earlier->passage_words && contents.inputs == earlier->inputs &&
      contents.files == earlier->files;
  if (same_documents && SameVectors(*earlier, options)) {
    receipt.words = static_cast<std::int64_t>(earlier->words.size());
    if (options.encoder) receipt.kept = receipt.passages;
    return receipt;
  }
  contents.words = WeighWords(contents.passages);
  receipt.words = static_cast<std::int64_t>(contents.words.size());
  if (options.encoder) {
    contents.vectors = EmbedPassages(contents.passages, known, options, receipt);
  }
  folder.ReplaceIndex(IndexBytes(contents));
  return receipt;
}

}  // namespace banyan
