// The index's bytes, written and read with every check, and the locked folder that they are in.
#include "retrieve/index_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "formats/byte_reader.h"
#include "retrieve/corpus.h"

namespace banyan {
namespace {

constexpr std::string_view kMagic = "BANYANIX";
constexpr std::uint32_t kVersion = 3;
constexpr std::uint32_t kMostDimensions = 1 << 20;
constexpr std::uint32_t kMostPassageWords = 1 << 30;

template <typename T>
void Put(T value, std::string& out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void PutText(std::string_view text, std::string& out) {
  Put(static_cast<std::uint64_t>(text.size()), out);
  out += text;
}

void PutDigest(const Digest& digest, std::string& out) {
  out.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

Digest ReadDigest(ByteReader& reader, const char* what) {
  Digest digest;
  std::memcpy(digest.data(), reader.Take(digest.size(), what).data(), digest.size());
  return digest;
}

void PutSources(const IndexContents& index, std::string& out) {
  Put(static_cast<std::uint32_t>(index.passage_words), out);
  Put(static_cast<std::uint64_t>(index.inputs.size()), out);
  for (const std::string& input : index.inputs) PutText(input, out);
  Put(static_cast<std::uint64_t>(index.files.size()), out);
  for (const IndexedFile& file : index.files) {
    PutText(file.path, out);
    PutDigest(file.hash, out);
  }
  Put(static_cast<std::uint64_t>(index.documents.size()), out);
  for (const IndexedDocument& document : index.documents) {
    Put(static_cast<std::uint64_t>(document.file), out);
    PutText(document.id, out);
    PutDigest(document.hash, out);
    Put(static_cast<std::uint64_t>(document.passages), out);
  }
}

void ReadSources(ByteReader& reader, const std::string& name, IndexContents& index) {
  const auto words = reader.Read<std::uint32_t>("the words of a passage");
  if (words == 0 || words > kMostPassageWords) {
    Throw(ErrorKind::kFormat, "{}: passages of {} words: expected 1 to {}", name, words,
          kMostPassageWords);
  }
  index.passage_words = static_cast<int>(words);
  const auto inputs = reader.Read<std::uint64_t>("the number of inputs");
  reader.CheckCount(inputs, 8, "the number of inputs");
  for (std::uint64_t i = 0; i < inputs; ++i) {
    index.inputs.emplace_back(reader.ReadString("an input"));
  }
  const auto files = reader.Read<std::uint64_t>("the number of files");
  reader.CheckCount(files, 8 + sizeof(Digest), "the number of files");
  for (std::uint64_t i = 0; i < files; ++i) {
    IndexedFile& file = index.files.emplace_back();
    file.path = reader.ReadString("a file's path");
    file.hash = ReadDigest(reader, "a file's hash");
  }
  const auto documents = reader.Read<std::uint64_t>("the number of documents");
  reader.CheckCount(documents, 3 * 8 + sizeof(Digest), "the number of documents");
  for (std::uint64_t i = 0; i < documents; ++i) {
    IndexedDocument& document = index.documents.emplace_back();
    document.file = static_cast<size_t>(reader.Read<std::uint64_t>("a document's file"));
    document.id = reader.ReadString("a document's id");
    document.hash = ReadDigest(reader, "a document's hash");
    document.passages = static_cast<size_t>(reader.Read<std::uint64_t>("a document's passages"));
    const bool in_order = i == 0 || index.documents[i - 1].file <= document.file;
    if (document.file >= index.files.size() || !in_order) {
      Throw(ErrorKind::kFormat, "{}: a document of file {} of {}", name, document.file,
            index.files.size());
    }
  }
}

// Every passage belongs to a document.
void CheckPassages(const IndexContents& index, const std::string& name) {
  size_t left = index.passages.size();
  for (const IndexedDocument& document : index.documents) {
    if (document.passages == 0 || document.passages > left) {
      Throw(ErrorKind::kFormat, "{}: the document '{}' has {} passages where {} are left", name,
            document.id, document.passages, left);
    }
    left -= document.passages;
  }
  if (left > 0) Throw(ErrorKind::kFormat, "{}: {} passages of no document", name, left);
}

std::vector<Passage> ReadPassages(ByteReader& reader) {
  constexpr std::uint64_t kLeastBytes = 5 * 8;  // of one: four lengths and where it begins
  const auto count = reader.Read<std::uint64_t>("the number of passages");
  reader.CheckCount(count, kLeastBytes, "the number of passages");
  std::vector<Passage> passages(static_cast<size_t>(count));
  for (Passage& passage : passages) {
    passage.id = reader.ReadString("a passage's id");
    passage.source = reader.ReadString("a passage's source");
    passage.title = reader.ReadString("a passage's title");
    passage.text = reader.ReadString("a passage's text");
    passage.begin = reader.Read<std::int64_t>("a passage's place");
  }
  return passages;
}

std::vector<Bm25::Word> ReadWords(ByteReader& reader, size_t passages, const std::string& name) {
  const auto count = reader.Read<std::uint64_t>("the number of words");
  reader.CheckCount(count, 2 * 8, "the number of words");
  std::vector<Bm25::Word> words(static_cast<size_t>(count));
  for (Bm25::Word& word : words) {
    word.text = reader.ReadString("a word");
    const auto postings = reader.Read<std::uint64_t>("a word's passages");
    reader.CheckCount(postings, 8, "a word's passages");
    std::int64_t last = -1;
    for (std::uint64_t i = 0; i < postings; ++i) {
      const auto passage = reader.Read<std::int32_t>("a passage's number");
      const auto weight = reader.Read<float>("a word's weight");
      if (passage <= last || static_cast<size_t>(passage) >= passages || !std::isfinite(weight)) {
        Throw(ErrorKind::kFormat, "{}: the word '{}' has a passage that is not there", name,
              word.text);
      }
      last = passage;
      word.postings.push_back({passage, weight});
    }
  }
  return words;
}

std::vector<SparseVector> ReadSparse(ByteReader& reader, size_t passages, const std::string& name) {
  std::vector<SparseVector> vectors(passages);
  for (SparseVector& vector : vectors) {
    const auto count = reader.Read<std::uint64_t>("a sparse vector's length");
    reader.CheckCount(count, 8, "a sparse vector's length");
    std::int64_t last = -1;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto token = reader.Read<TokenId>("a token");
      const auto weight = reader.Read<float>("a token's weight");
      if (token <= last || !std::isfinite(weight)) {
        Throw(ErrorKind::kFormat, "{}: a sparse vector has the token {} after {}", name, token,
              last);
      }
      last = token;
      vector.emplace_back(token, weight);
    }
  }
  return vectors;
}

// Version 0.2.0 could also search all vectors with FAISS. Such an index is searched without it.
constexpr std::string_view kFormerFlatSearch = "flat";

bool ReadFlag(ByteReader& reader, const char* what, const std::string& name) {
  const auto flag = reader.Read<std::uint32_t>(what);
  if (flag > 1) Throw(ErrorKind::kFormat, "{}: {} is {}: expected 0 or 1", name, what, flag);
  return flag == 1;
}

PassageVectors ReadVectors(ByteReader& reader, size_t passages, const std::string& name) {
  PassageVectors vectors;
  vectors.encoder.name = reader.ReadString("the encoder's name");
  vectors.encoder.fingerprint = reader.ReadString("the encoder's fingerprint");
  const std::string search(reader.ReadString("the search's name"));
  const bool flat = search == kFormerFlatSearch;
  try {
    vectors.search = flat ? VectorSearch::kExact : ParseVectorSearch(search);
  } catch (const Error&) {
    Throw(ErrorKind::kFormat, "{}: the unknown search '{}'", name, search);
  }
  const auto dimensions = reader.Read<std::uint32_t>("the vectors' dimensions");
  if (dimensions == 0 || dimensions > kMostDimensions) {
    Throw(ErrorKind::kFormat, "{}: vectors of {} dimensions: expected 1 to {}", name, dimensions,
          kMostDimensions);
  }
  reader.CheckCount(passages, std::uint64_t{dimensions} * sizeof(float), "the number of vectors");
  vectors.encoder.dimensions = static_cast<int>(dimensions);
  vectors.dense.resize(passages * dimensions);
  const size_t bytes = vectors.dense.size() * sizeof(float);
  const auto values = reader.Take(bytes, "the vectors");
  if (bytes > 0) std::memcpy(vectors.dense.data(), values.data(), bytes);
  if (!std::ranges::all_of(vectors.dense, [](float value) { return std::isfinite(value); })) {
    Throw(ErrorKind::kFormat, "{}: a vector has a value that is no number", name);
  }
  vectors.encoder.sparse = ReadFlag(reader, "the flag of sparse vectors", name);
  if (vectors.encoder.sparse) vectors.sparse = ReadSparse(reader, passages, name);
  vectors.faiss = reader.ReadString("the index of FAISS");
  if (flat) vectors.faiss.clear();
  if (vectors.faiss.empty() != (vectors.search == VectorSearch::kExact)) {
    Throw(ErrorKind::kFormat, "{}: the search '{}' with an index of FAISS of {} bytes", name,
          search, vectors.faiss.size());
  }
  return vectors;
}

void PutVectors(const PassageVectors& vectors, std::string& out) {
  PutText(vectors.encoder.name, out);
  PutText(vectors.encoder.fingerprint, out);
  PutText(VectorSearchName(vectors.search), out);
  Put(static_cast<std::uint32_t>(vectors.encoder.dimensions), out);
  out.append(reinterpret_cast<const char*>(vectors.dense.data()),
             vectors.dense.size() * sizeof(float));
  Put(std::uint32_t{vectors.encoder.sparse ? 1u : 0u}, out);
  for (const SparseVector& vector : vectors.sparse) {
    Put(static_cast<std::uint64_t>(vector.size()), out);
    for (const auto& [token, weight] : vector) {
      Put(token, out);
      Put(weight, out);
    }
  }
  PutText(vectors.faiss, out);
}

}  // namespace

std::string IndexBytes(const IndexContents& index) {
  std::string contents;
  PutSources(index, contents);
  Put(static_cast<std::uint64_t>(index.passages.size()), contents);
  for (const Passage& passage : index.passages) {
    for (const std::string* text : {&passage.id, &passage.source, &passage.title, &passage.text}) {
      PutText(*text, contents);
    }
    Put(passage.begin, contents);
  }
  Put(static_cast<std::uint64_t>(index.words.size()), contents);
  for (const Bm25::Word& word : index.words) {
    PutText(word.text, contents);
    Put(static_cast<std::uint64_t>(word.postings.size()), contents);
    for (const Bm25::Posting& posting : word.postings) {
      Put(posting.document, contents);
      Put(posting.weight, contents);
    }
  }
  Put(std::uint32_t{index.vectors ? 1u : 0u}, contents);
  if (index.vectors) PutVectors(*index.vectors, contents);
  std::string bytes(kMagic);
  Put(kVersion, bytes);
  Put(std::uint32_t{0}, bytes);
  Put(static_cast<std::uint64_t>(contents.size()), bytes);
  const Digest checksum = Sha256().Add(contents).Finish();
  bytes.append(reinterpret_cast<const char*>(checksum.data()), checksum.size());
  return bytes + contents;
}

IndexContents ReadIndexBytes(std::span<const std::byte> bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  const auto magic = reader.Take(kMagic.size(), "the beginning of an index");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    Throw(ErrorKind::kFormat, "{}: no index of banyan rag", name);
  }
  const auto version = reader.Read<std::uint32_t>("the version");
  if (version != kVersion) {
    Throw(ErrorKind::kFormat, "{}: an index of version {}: expected {}; make it again", name,
          version, kVersion);
  }
  if (reader.Read<std::uint32_t>("the reserved field") != 0) {
    Throw(ErrorKind::kFormat, "{}: the index is damaged; make it again", name);
  }
  const auto size = reader.Read<std::uint64_t>("the length");
  Digest checksum;
  std::memcpy(checksum.data(), reader.Take(checksum.size(), "the checksum").data(),
              checksum.size());
  const auto contents = reader.Take(size, "the contents");
  if (reader.remaining() > 0 || Sha256().Add(contents).Finish() != checksum) {
    Throw(ErrorKind::kFormat, "{}: the index is damaged; make it again", name);
  }
  IndexContents index = ReadIndexContents(contents, name);
  index.fingerprint = ToHex(checksum);
  return index;
}

IndexContents ReadIndexContents(std::span<const std::byte> contents, const std::string& name) {
  ByteReader reader(contents, name);
  IndexContents index;
  ReadSources(reader, name, index);
  index.passages = ReadPassages(reader);
  CheckPassages(index, name);
  index.words = ReadWords(reader, index.passages.size(), name);
  if (ReadFlag(reader, "the flag of vectors", name)) {
    index.vectors = ReadVectors(reader, index.passages.size(), name);
  }
  if (reader.remaining() > 0) {
    Throw(ErrorKind::kFormat, "{}: {} bytes after the contents", name, reader.remaining());
  }
  return index;
}

namespace fs = std::filesystem;

std::optional<IndexContents> EarlierIndex(const std::string& directory) {
  const std::string path = (fs::path(directory) / kIndexFileName).string();
  if (!fs::exists(path)) return std::nullopt;
  const MappedFile file(path);
  return ReadIndexBytes(file.bytes(), path);
}

std::optional<IndexContents> ReadableIndex(const std::string& directory) {
  try {
    return EarlierIndex(directory);
  } catch (const Error&) {
    return std::nullopt;
  }
}

LockedFolder::LockedFolder(const std::string& directory) : directory_(directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed) {
    Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", directory, failed.message());
  }
  folder_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) {
    Throw(ErrorKind::kIo, "{}: cannot open the folder: {}", directory,
          std::generic_category().message(errno));
  }
  while (::flock(folder_, LOCK_EX) != 0 && errno == EINTR) {
  }
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kIndexFileName) && name != kIndexFileName) fs::remove(entry, none);
  }
}

LockedFolder::~LockedFolder() { ::close(folder_); }

void LockedFolder::ReplaceIndex(const std::string& bytes) const {
  const fs::path target = fs::path(directory_) / kIndexFileName;
  WriteFileAtomically(target.string(), fmt::format("{}.{}", target.string(), ::getpid()), 0644,
                      bytes);
}

}  // namespace banyan
