#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "banyan/retrieval.h"
#include "base/error.h"
#include "retrieve/corpus.h"
#include "retrieve/index_file.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

void Write(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

std::vector<std::string> TextsOf(const std::vector<Passage>& passages) {
  std::vector<std::string> texts;
  for (const Passage& passage : passages) texts.push_back(passage.text);
  return texts;
}

TEST(Passages, OfAShortDocumentAreOne) {
  std::vector<Passage> passages;
  AppendPassages({"d", "Title", "  Two words. \n"}, 10, passages);
  ASSERT_EQ(passages.size(), 1u);
  EXPECT_EQ(passages[0].id, "d");
  EXPECT_EQ(passages[0].text, "Two words.");
  EXPECT_EQ(passages[0].begin, 2);
  AppendPassages({"empty", "", " \n "}, 10, passages);
  EXPECT_EQ(passages.size(), 1u);
}

TEST(Passages, EndWithParagraphsThenSentencesThenWords) {
  std::vector<Passage> passages;
  AppendPassages({"d", "", "one two three.\n\nfour five. six seven"}, 4, passages);
  EXPECT_EQ(TextsOf(passages),
            (std::vector<std::string>{"one two three.", "four five. six seven"}));
  EXPECT_EQ(passages[1].id, "d#2");
  passages.clear();
  AppendPassages({"d", "", "one two. three four five"}, 3, passages);
  EXPECT_EQ(TextsOf(passages), (std::vector<std::string>{"one two.", "three four five"}));
  passages.clear();
  AppendPassages({"d", "", "one two three four"}, 3, passages);
  EXPECT_EQ(TextsOf(passages), (std::vector<std::string>{"one two three", "four"}));
}

// Every character of a document is in one passage, or space between two.
TEST(Passages, HoldTheWholeDocumentInOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    const int pieces = static_cast<int>(random() % 40);
    for (int i = 0; i < pieces; ++i) {
      const char* some[] = {"word", "ärger", "end. ", " ", "\n\n", "!", "x y", "漢"};
      text += some[random() % 8];
    }
    std::vector<Passage> passages;
    AppendPassages({"d", "", text}, 1 + static_cast<int>(random() % 6), passages);
    std::u32string characters;
    for (const char c : text) {  // one for every character's first byte
      if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) characters.push_back(0);
    }
    size_t byte = 0;
    for (const Passage& passage : passages) {
      const size_t at = text.find(passage.text, byte);
      ASSERT_NE(at, std::string::npos);
      EXPECT_EQ(text.substr(byte, at - byte).find_first_not_of(" \n"), std::string::npos);
      std::int64_t before = 0;
      for (size_t i = 0; i < at; ++i) {
        before += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80 ? 1 : 0;
      }
      EXPECT_EQ(passage.begin, before);
      byte = at + passage.text.size();
    }
    EXPECT_EQ(text.find_first_not_of(" \n", byte), std::string::npos);
  }
}

TEST(DocumentIndex, FindsWhatSharesWords) {
  const TempDirectory directory;
  const auto path = directory.path();
  Write(path / "docs/harbour.txt", "The ferry Marigold leaves at 7:45 from the old harbour.");
  Write(path / "docs/deep/tea.md", "Tea is grown in the hills.\n\nThe hills are green.");
  Write(path / "docs/rows.jsonl",
        "{\"id\":7,\"title\":\"Boats\",\"text\":\"A list.\"}\nnot json\n{\"id\":\"e\"}\n");
  Write(path / "docs/picture.bin", std::string("\0\xFF", 2));
  Write(path / "docs/.hidden/secret.txt", "Nobody asked for this.");
  std::vector<std::string> notices;
  IndexOptions options;
  options.notice = [&](const std::string& text) { notices.push_back(text); };
  const IndexReceipt receipt =
      DocumentIndex::Build((path / "index").string(), {(path / "docs").string()}, options);
  EXPECT_EQ(receipt.documents, 3);
  EXPECT_EQ(receipt.left_out, 3);  // the picture, the bad row, the row without a text
  EXPECT_EQ(notices.size(), 4u);   // and what is hidden

  const auto index = DocumentIndex::Open((path / "index").string());
  EXPECT_EQ(index->size(), 3);
  const std::vector<FoundPassage> found = index->Search("When does the FERRY leave?", 5);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(index->at(found[0].passage).source, (path / "docs/harbour.txt").string());
  ASSERT_EQ(index->Search("boats", 5).size(), 1u);
  EXPECT_EQ(index->at(index->Search("boats", 5)[0].passage).id, "7");
  EXPECT_TRUE(index->Search("submarine", 5).empty());

  // Made again from something else: replaced, and a reader of the old one goes on.
  DocumentIndex::Build((path / "index").string(), {(path / "docs/harbour.txt").string()}, options);
  EXPECT_EQ(DocumentIndex::Open((path / "index").string())->size(), 1);
  EXPECT_EQ(index->size(), 3);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path / "index"), {}), 1);
}

TEST(DocumentIndex, ReadsTheDocumentsThatPeopleHave) {
  const TempDirectory directory;
  Write(directory.path() / "docs/page.html",
        "<html><head><style>p{}</style></head><body><p>The pier is <b>old</b>.</p></body></html>");
  Write(directory.path() / "docs/notes.md", "# Boats\n\nThe *Marigold* is blue.");
  Write(directory.path() / "docs/report.docx", std::string("PK\0\3", 4));
  Write(directory.path() / "docs/broken.pdf", "%PDF-1.4 and no more");
  Write(directory.path() / "docs/empty.txt", " \n");
  std::vector<std::string> notices;
  IndexOptions options;
  options.notice = [&](const std::string& text) { notices.push_back(text); };
  const std::string folder = (directory.path() / "index").string();
  const IndexReceipt receipt =
      DocumentIndex::Build(folder, {(directory.path() / "docs").string()}, options);
  const auto index = DocumentIndex::Open(folder);
  EXPECT_EQ(receipt.documents, index->size());
  EXPECT_EQ(receipt.documents + receipt.left_out, 5);
  for (const char* name : {"broken.pdf", "empty.txt", "report.docx"}) {
    EXPECT_TRUE(std::ranges::any_of(notices, [&](const std::string& text) {
      return text.find(name) != std::string::npos && text.find("left out") != std::string::npos;
    })) << name;
  }
  EXPECT_TRUE(std::ranges::any_of(notices, [](const std::string& text) {
    return text.find("a Word document, which is not read here; convert it: pandoc") !=
           std::string::npos;
  }));
  ASSERT_EQ(index->Search("the blue Marigold", 1).size(), 1u);
  EXPECT_EQ(index->at(index->Search("Marigold", 1)[0].passage).text,
            "# Boats\n\nThe *Marigold* is blue.");
  if (receipt.documents == 2) {  // this build reads HTML
    EXPECT_EQ(index->at(index->Search("pier", 1).at(0).passage).text, "The pier is old.");
  }
}

TEST(DocumentIndex, NothingToIndexIsAnError) {
  const TempDirectory directory;
  Write(directory.path() / "empty.txt", " \n");
  const std::string index = (directory.path() / "index").string();
  EXPECT_THROW(DocumentIndex::Build(index, {(directory.path() / "empty.txt").string()}, {}), Error);
  EXPECT_THROW(DocumentIndex::Build(index, {(directory.path() / "absent").string()}, {}), Error);
  EXPECT_THROW(DocumentIndex::Open(index), Error);
}

IndexContents SmallIndex() {
  const std::vector<std::vector<std::string>> documents = {{"a", "b"}, {"b"}};
  IndexContents contents;
  contents.inputs = {"docs"};
  contents.files = {{"docs/s", Sha256().Add("file").Finish()}};
  contents.documents = {{0, "s", Sha256().Add("document").Finish(), 2}};
  contents.passages = {{"1", "s", "t", "a b", 0}, {"2", "s", "", "b", 4}};
  contents.words = Bm25(documents, Bm25Options()).Words();
  PassageVectors& vectors = contents.vectors.emplace();
  vectors.encoder = {"an encoder", "0123", 3, true};
  vectors.dense = {1, 0, 0, 0, 0.6f, 0.8f};
  vectors.sparse = {{{4, 0.5f}, {9, 0.25f}}, {}};
  return contents;
}

TEST(DocumentIndex, AFileKeepsEverything) {
  IndexContents contents = SmallIndex();
  const auto read = [](const std::string& bytes) {
    return ReadIndexBytes(std::as_bytes(std::span(bytes)), "index");
  };
  const IndexContents again = read(IndexBytes(contents));
  EXPECT_EQ(again.inputs, contents.inputs);
  EXPECT_EQ(again.files.at(0).path, "docs/s");
  EXPECT_EQ(again.files.at(0).hash, contents.files[0].hash);
  EXPECT_EQ(again.documents.at(0).hash, contents.documents[0].hash);
  EXPECT_EQ(again.documents.at(0).passages, 2u);
  const PassageVectors found = again.vectors.value();
  EXPECT_EQ(found.encoder.name, "an encoder");
  EXPECT_EQ(found.encoder.fingerprint, "0123");
  EXPECT_EQ(found.encoder.dimensions, 3);
  EXPECT_TRUE(found.encoder.sparse);
  EXPECT_EQ(found.dense, contents.vectors->dense);
  EXPECT_EQ(found.sparse, contents.vectors->sparse);
  contents.vectors->search = VectorSearch::kHnsw;  // which has an index of FAISS
  EXPECT_THROW(read(IndexBytes(contents)), Error);
  contents.vectors->faiss = "bytes";
  EXPECT_EQ(read(IndexBytes(contents)).vectors->faiss, "bytes");
  // Version 0.2.0 had one more search with FAISS, which found what an exact one finds.
  constexpr size_t kHeaderBytes = 8 + 4 + 4 + 8 + 32;
  std::string former = IndexBytes(contents).substr(kHeaderBytes);
  former.replace(former.find("hnsw"), 4, "flat");
  const PassageVectors flat =
      ReadIndexContents(std::as_bytes(std::span(former)), "index").vectors.value();
  EXPECT_EQ(flat.search, VectorSearch::kExact);
  EXPECT_TRUE(flat.faiss.empty());
  contents.vectors->dense[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(read(IndexBytes(contents)), Error);
  contents.vectors.reset();
  EXPECT_FALSE(read(IndexBytes(contents)).vectors);
  contents.documents[0].passages = 1;  // and one of nobody
  EXPECT_THROW(read(IndexBytes(contents)), Error);
  contents.documents[0] = {1, "s", {}, 2};
  EXPECT_THROW(read(IndexBytes(contents)), Error);
}

// Whatever byte is changed or wherever the file ends: an error, never another index.
TEST(DocumentIndex, DamageIsNoticed) {
  const std::string good = IndexBytes(SmallIndex());
  const auto read = [](const std::string& bytes) {
    return ReadIndexBytes(std::as_bytes(std::span(bytes)), "index");
  };
  EXPECT_EQ(read(good).passages.size(), 2u);
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_THROW(read(good.substr(0, i)), Error) << i;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_THROW(read(bad), Error) << i;
  }
  EXPECT_THROW(read(good + "x"), Error);
}

}  // namespace
}  // namespace banyan
