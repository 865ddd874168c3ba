// Lines, CSV rows and packed files, valid and broken.
#include "base/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/csv.h"
#include "base/output_file.h"
#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::ErrorMessage;
using testing_support::TempDirectory;
using Rows = std::vector<std::vector<std::string>>;

std::string ReadAll(ByteSource& source, size_t chunk) {
  std::string all;
  std::vector<char> buffer(chunk);
  while (const size_t got = source.Read(buffer)) all.append(buffer.data(), got);
  return all;
}

std::vector<std::string> Lines(std::string_view text, size_t most = 100) {
  LineReader reader(ByteSourceOf(text, "test"), most);
  std::vector<std::string> lines;
  std::string line;
  while (reader.Next(line)) lines.push_back(reader.too_long() ? "<too long>" : line);
  return lines;
}

Rows CsvRows(std::string_view text, size_t most = 10'000) {
  CsvReader reader(ByteSourceOf(text, "test"), most);
  Rows rows;
  std::vector<std::string> fields;
  while (reader.Next(fields)) {
    if (!reader.problem().empty()) fields = {"<" + reader.problem() + ">"};
    rows.push_back(fields);
  }
  return rows;
}

TEST(LineReader, EndsMarksAndLimits) {
  using Expected = std::vector<std::string>;
  EXPECT_EQ(Lines(""), Expected{});
  EXPECT_EQ(Lines("a"), Expected{"a"});
  EXPECT_EQ(Lines("a\n"), Expected{"a"});
  EXPECT_EQ(Lines("a\r\n\nb"), (Expected{"a", "", "b"}));
  EXPECT_EQ(Lines("\xEF\xBB\xBFx\n\xEF\xBB\xBFy"), (Expected{"x", "\xEF\xBB\xBFy"}));
  EXPECT_EQ(Lines("abc\nabcd\nab", 3), (Expected{"abc", "<too long>", "ab"}));
  const std::string longer(200'000, 'x');
  EXPECT_EQ(Lines(longer + "\nb", 1'000'000), (Expected{longer, "b"}));
  EXPECT_EQ(Lines(longer + "\nb", 1000), (Expected{"<too long>", "b"}));
}

TEST(Csv, ReadsWhatItShould) {
  EXPECT_EQ(CsvRows(""), Rows{});
  EXPECT_EQ(CsvRows("a,b\nc,d"), (Rows{{"a", "b"}, {"c", "d"}}));
  EXPECT_EQ(CsvRows("a,\n,\n"), (Rows{{"a", ""}, {"", ""}}));
  EXPECT_EQ(CsvRows("\"a,\"\"b\"\"\r\nc\",d\r\n\r\ne\r\n"), (Rows{{"a,\"b\"\r\nc", "d"}, {"e"}}));
  EXPECT_EQ(CsvRows("\xEF\xBB\xBFx,y\n"), (Rows{{"x", "y"}}));
  EXPECT_EQ(CsvRows("\xEF\xBFx,y\n"), (Rows{{"\xEF\xBFx", "y"}}));
  EXPECT_EQ(CsvRows("\"open\nfield"),
            (Rows{{"<a quoted field is not closed before the end of the file>"}}));
  EXPECT_EQ(CsvRows("\"a\"b,c\nd"),
            (Rows{{"<expected a comma or the line's end after a closing quote>"}, {"d"}}));
  EXPECT_EQ(CsvRows("abcdefghij,k\nb", 60).front().front().front(), '<');
  EXPECT_EQ(CsvRows("abcdefghij,k\nb", 60).back(), std::vector<std::string>{"b"});
  EXPECT_EQ(CsvRows(std::string(100'000, ',') + "\nb", 1000).back(), std::vector<std::string>{"b"});
}

TEST(Csv, LineNumbers) {
  CsvReader reader(ByteSourceOf("a\n\n\"b\nb\"\nc\n", "test"), 1000);
  std::vector<std::string> fields;
  std::vector<std::int64_t> lines;
  while (reader.Next(fields)) lines.push_back(reader.line());
  EXPECT_EQ(lines, (std::vector<std::int64_t>{1, 3, 5}));
}

TEST(Csv, WhatIsWrittenReadsBack) {
  std::mt19937 random(2);
  const std::string alphabet = "ab,\"\r\n \xC3\xA9";
  Rows rows;
  std::string text;
  for (int i = 0; i < 300; ++i) {
    std::vector<std::string>& row = rows.emplace_back(1 + random() % 4);
    for (std::string& field : row) {
      for (size_t n = random() % 6; n > 0; --n) field += alphabet[random() % alphabet.size()];
    }
    text += CsvRow(row);
  }
  EXPECT_EQ(CsvRows(text), rows);
}

class Packed : public ::testing::TestWithParam<Packing> {};

TEST_P(Packed, CutAtCheckpointsReadsBack) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "file").string();
  std::mt19937 random(4);
  std::string all;
  std::vector<std::pair<std::int64_t, size_t>> points = {{0, 0}};  // packed and plain lengths
  {
    OutputFile file(path, GetParam());
    for (int i = 0; i < 30; ++i) {
      std::string text(random() % 20'000, 'a');
      for (char& c : text) c = static_cast<char>('a' + random() % 8);
      file.Append(text);
      all += text;
      if (i % 3 == 0) file.Flush();
      if (i % 4 == 0) points.emplace_back(file.Checkpoint(), all.size());
    }
    points.emplace_back(file.Checkpoint(), all.size());
  }
  for (const size_t chunk : {1u, 777u, 100'000u}) {
    EXPECT_EQ(ReadAll(*OpenByteSource(path), chunk), all);
  }
  // Cut in the middle of what follows a checkpoint, taken up there again.
  const auto [length, plain] = points[3];
  {
    std::ifstream there(path, std::ios::binary);
    std::string kept(static_cast<size_t>(length), '\0');
    there.read(kept.data(), length);
    OutputFile file(path, GetParam(), ContentHash().Add(kept));
    file.Append("more");
    EXPECT_GT(file.Checkpoint(), length);
    std::ifstream written(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(written), {}};
    EXPECT_EQ(file.content().Value(), ContentHash().Add(bytes).Value());
  }
  EXPECT_EQ(ReadAll(*OpenByteSource(path), 4096), all.substr(0, plain) + "more");
}

TEST_P(Packed, TruncationsAndFlippedBitsAreErrorsOrText) {
  const TempDirectory folder;
  const std::string path = (folder.path() / "file").string();
  {
    OutputFile file(path, GetParam());
    file.Append("some text that is packed, some text that is packed");
    file.Checkpoint();
  }
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const auto check = [](const std::string& damaged) {
    try {
      ReadAll(*ByteSourceOf(damaged, "damaged"), 64);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kFormat);
    }
  };
  for (size_t size = 0; size < bytes.size(); ++size) check(bytes.substr(0, size));
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    std::string damaged = bytes;
    damaged[i / 8] = static_cast<char>(damaged[i / 8] ^ (1 << i % 8));
    check(damaged);
  }
}

std::vector<Packing> Packings() {
  std::vector<Packing> packings = {Packing::kNone};
#ifdef BANYAN_WITH_ZLIB
  packings.push_back(Packing::kGzip);
#endif
#ifdef BANYAN_WITH_ZSTD
  packings.push_back(Packing::kZstd);
#endif
  return packings;
}
INSTANTIATE_TEST_SUITE_P(All, Packed, ::testing::ValuesIn(Packings()));

TEST(OutputFile, RefusesWhatCannotBeWritten) {
  EXPECT_NE(ErrorMessage(ErrorKind::kIo, [] { OutputFile("/no/such/place", Packing::kNone); }), "");
  OutputFile full("/dev/full", Packing::kNone);
  full.Append("x");
  EXPECT_NE(ErrorMessage(ErrorKind::kIo, [&] { full.Flush(); }), "");
  EXPECT_NE(ErrorMessage(ErrorKind::kNotFound, [] { OpenByteSource("/no/such/file"); }), "");
  EXPECT_NE(ErrorMessage(ErrorKind::kIo, [] { OpenByteSource("/"); }), "");
}

}  // namespace

namespace {

using ::testing::HasSubstr;
using testing_support::ErrorMessage;

std::string Decoded(std::string_view bytes, const std::string& encoding, size_t chunk = 3) {
  const auto source = DecodedSource(ByteSourceOf(bytes, "test"), encoding);
  std::string all;
  std::vector<char> buffer(chunk);
  while (const size_t got = source->Read(buffer)) all.append(buffer.data(), got);
  return all;
}

TEST(DecodedSource, PeoplesNamesOfEncodings) {
  for (const char* name : {"latin-1", "Latin1", "ISO-8859-1", "windows-1252", "cp1252"}) {
    EXPECT_EQ(Decoded("F\xE4hre", name), "Fähre") << name;
  }
  EXPECT_EQ(Decoded("\x80", "windows-1252"), "€");
  EXPECT_EQ(Decoded("", "latin-1"), "");
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [] { CheckEncoding("klingon"); }),
              HasSubstr("found 'klingon'"));
}

TEST(DecodedSource, CharactersThatReadsCutAreWhole) {
  std::string wide("\xFF\xFE", 2), expected;
  for (int i = 0; i < 40'000; ++i) {
    wide.append("\xE4\x00", 2);
    expected += "ä";
  }
  EXPECT_EQ(Decoded(wide, "UTF-16", 1000), expected);
}

TEST(DecodedSource, WhatIsNoTextIsRefusedWithItsPlace) {
  EXPECT_THAT(ErrorMessage(ErrorKind::kInput, [] { Decoded("ok \xFF\xFF", "UTF-8"); }),
              HasSubstr("not valid UTF-8 at byte 4"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kInput, [] { Decoded("a\xC3", "UTF-8"); }),
              HasSubstr("at byte 2"));
}

}  // namespace
}  // namespace banyan
