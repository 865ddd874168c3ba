#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "banyan/error.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"
#include "support/oracle_folders.h"
#include "support/processor_time.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::GgufWriter;
using testing_support::TempDirectory;

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

GgufWriter EveryType() {
  GgufWriter writer;
  writer.Scalar<std::uint8_t>("u8", 0, 200);
  writer.Scalar<std::int8_t>("i8", 1, -100);
  writer.Scalar<std::uint16_t>("u16", 2, 60000);
  writer.Scalar<std::int16_t>("i16", 3, -30000);
  writer.U32("u32", 4000000000u);
  writer.I32("i32", -2000000000);
  writer.F32("f32", 1.5f);
  writer.Bool("bool", true);
  writer.String("string", "text");
  writer.U64("u64", std::numeric_limits<std::uint64_t>::max());
  writer.Scalar<std::int64_t>("i64", 11, -5);
  writer.Scalar<double>("f64", 12, 0.1);
  writer.Strings("strings", std::vector<std::string>{"a", "", "ccc"});
  writer.Array<float>("floats", 6, std::vector<float>{1.0f, -2.0f});
  writer.Array<std::int32_t>("ints", 5, std::vector<std::int32_t>{3, -4});
  writer.Array<std::uint64_t>("huge", 10, std::vector<std::uint64_t>{1, ~0ull});
  // One array of one array of two uint8.
  writer.Raw("nested", 9,
             std::string("\x09\0\0\0\x01\0\0\0\0\0\0\0"
                         "\0\0\0\0\x02\0\0\0\0\0\0\0"
                         "ab",
                         26));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  writer.TensorF32("matrix", std::vector<std::int64_t>{2, 3}, values);
  const std::vector<std::byte> block(34, std::byte{1});
  writer.Tensor("quantised", std::vector<std::int64_t>{1, 32}, 8, block);
  writer.Tensor("strange", std::vector<std::int64_t>{1}, 40, {});
  return writer;
}

TEST(Gguf, ReadsEveryValueType) {
  const std::string bytes = EveryType().Bytes();
  const GgufFile file(AsBytes(bytes), "x.gguf");
  EXPECT_EQ(file.metadata().GetUint("u8"), 200u);
  EXPECT_EQ(*file.metadata().FindInt("i8"), -100);
  EXPECT_EQ(file.metadata().GetUint("u16"), 60000u);
  EXPECT_EQ(*file.metadata().FindInt("i16"), -30000);
  EXPECT_EQ(file.metadata().GetUint("u32"), 4000000000u);
  EXPECT_EQ(*file.metadata().FindInt("i32"), -2000000000);
  EXPECT_EQ(file.metadata().GetFloat("f32"), 1.5);
  EXPECT_TRUE(*file.metadata().FindBool("bool"));
  EXPECT_EQ(file.metadata().GetString("string"), "text");
  EXPECT_EQ(file.metadata().GetUint("u64"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(*file.metadata().FindInt("i64"), -5);
  EXPECT_EQ(file.metadata().GetFloat("f64"), 0.1);
  EXPECT_THAT(*file.metadata().FindStringArray("strings"), ElementsAre("a", "", "ccc"));
  EXPECT_THAT(*file.metadata().FindFloatArray("floats"), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(file.metadata().GetIntArray("ints"), ElementsAre(3, -4));
  EXPECT_EQ(file.metadata().FindArrayLength("nested"), 1u);
  EXPECT_EQ(file.metadata().FindUint("absent"), std::nullopt);
  EXPECT_EQ(file.metadata().FindStringArray("absent"), std::nullopt);
  EXPECT_TRUE(file.metadata().IsArray("ints"));
  EXPECT_FALSE(file.metadata().IsArray("u8"));
  EXPECT_EQ(file.metadata().Keys().size(), 17u);
}

TEST(Gguf, NamesKeyExpectedAndFoundType) {
  const std::string bytes = EveryType().Bytes();
  const GgufFile file(AsBytes(bytes), "x.gguf");
  const auto message = [](auto f) { return ErrorMessage(ErrorKind::kFormat, f); };
  EXPECT_EQ(message([&] { file.metadata().GetUint("string"); }),
            "x.gguf: key 'string': expected an unsigned integer, found string");
  EXPECT_THAT(message([&] { file.metadata().GetUint("i8"); }), HasSubstr("found -100"));
  EXPECT_THAT(message([&] { file.metadata().FindInt("u64"); }),
              HasSubstr("found 18446744073709551615"));
  EXPECT_THAT(message([&] { file.metadata().GetFloat("u8"); }),
              HasSubstr("expected a float, found uint8"));
  EXPECT_THAT(message([&] { file.metadata().FindBool("u8"); }), HasSubstr("expected a bool"));
  EXPECT_THAT(message([&] { file.metadata().FindString("strings"); }),
              HasSubstr("found an array of string"));
  EXPECT_THAT(message([&] { file.metadata().FindStringArray("string"); }),
              HasSubstr("found string"));
  EXPECT_THAT(message([&] { file.metadata().FindIntArray("floats"); }),
              HasSubstr("found an array of float32"));
  EXPECT_THAT(message([&] { file.metadata().FindIntArray("huge"); }), HasSubstr("element 1"));
  EXPECT_THAT(message([&] { file.metadata().FindIntArray("nested"); }),
              HasSubstr("found an array of array"));
  EXPECT_EQ(message([&] { file.metadata().GetUint("absent"); }), "x.gguf: key 'absent' is missing");
}

TEST(Gguf, TensorsHaveShapesOutermostFirst) {
  const std::string bytes = EveryType().Bytes();
  const GgufFile file(AsBytes(bytes), "x.gguf");
  const TensorStore& tensors = file.tensors();
  EXPECT_THAT(tensors.Names(), ElementsAre("matrix", "quantised", "strange"));
  const HostTensor& matrix = tensors.Get("matrix", {2, 3});
  EXPECT_EQ(matrix.dtype, DType::kF32);
  EXPECT_EQ(matrix.bytes.size(), 24u);
  EXPECT_EQ(tensors.GetAnyShape("quantised").dtype, DType::kQ8_0);
  EXPECT_EQ(ErrorMessage(ErrorKind::kFormat,
                         [&] {
                           tensors.Get("matrix", {3, 2});
                         }),
            "x.gguf: tensor 'matrix': expected shape [3, 2], found [2, 3]");
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { tensors.Get("strange", {1}); }),
              HasSubstr("tensor 'strange' has element type NVFP4"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kNotFound, [&] { tensors.Get("nothing", {1}); }),
              HasSubstr("no tensor 'nothing'"));
}

TEST(Gguf, OpensAFileAndVersion2AndAVocabulary) {
  const TempDirectory directory;
  GgufWriter writer(2);
  writer.String("general.architecture", "llama");
  const auto path = directory.Write("vocabulary.gguf", writer.Bytes());
  GgufFile file(path);
  EXPECT_TRUE(file.tensors().Empty());
  const GgufFile moved = std::move(file);
  EXPECT_EQ(moved.metadata().GetString("general.architecture"), "llama");
  EXPECT_EQ(moved.path(), path.string());
  ErrorMessage(ErrorKind::kNotFound, [&] { GgufFile(directory.path() / "absent.gguf"); });
}

TEST(Gguf, RefusesOtherVersionsAndFiles) {
  std::string bytes = GgufWriter(1).Bytes();
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { GgufFile(AsBytes(bytes), "x"); }),
              HasSubstr("expected GGUF version 2 or 3, found 1"));
  bytes = GgufWriter(0x03000000).Bytes();
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { GgufFile(AsBytes(bytes), "x"); }),
              HasSubstr("big-endian"));
  bytes = "PK\x03\x04 something else";
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { GgufFile(AsBytes(bytes), "x"); }),
              HasSubstr("not a GGUF file"));
}

TEST(Gguf, RefusesWhatDoesNotFit) {
  const auto message = [](const GgufWriter& writer) {
    const std::string bytes = writer.Bytes();
    return ErrorMessage(ErrorKind::kFormat, [&] { GgufFile(AsBytes(bytes), "x"); });
  };
  GgufWriter twice;
  twice.U32("k", 1);
  twice.U32("k", 2);
  EXPECT_THAT(message(twice), HasSubstr("key 'k' is there twice"));
  GgufWriter alignment;
  alignment.U32("general.alignment", 3);
  EXPECT_THAT(message(alignment), HasSubstr("general.alignment is 3"));
  GgufWriter type;
  type.Raw("k", 13, "abcd");
  EXPECT_THAT(message(type), HasSubstr("expected a value type of 0 to 12, found 13"));
  GgufWriter length;
  length.Raw("k", 9, std::string("\x04\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f", 12));
  EXPECT_THAT(message(length), HasSubstr("the length of an array"));
  GgufWriter deep;
  std::string nest;
  for (int i = 0; i < 100; ++i) nest += std::string("\x09\0\0\0\x01\0\0\0\0\0\0\0", 12);
  deep.Raw("k", 9, nest);
  EXPECT_THAT(message(deep), HasSubstr("nest deeper"));
  GgufWriter large;
  large.Tensor("t", std::vector<std::int64_t>{1ll << 40, 1ll << 40}, 0, {});
  EXPECT_THAT(message(large), HasSubstr("too large"));
  GgufWriter empty;  // no values, but too many rows to count
  empty.Tensor("t", std::vector<std::int64_t>{1ll << 40, 1ll << 40, 0}, 0, {});
  EXPECT_THAT(message(empty), HasSubstr("too large"));
  GgufWriter dimensions;
  dimensions.Tensor("t", std::vector<std::int64_t>{1, 1, 1, 1, 1}, 0, {});
  EXPECT_THAT(message(dimensions), HasSubstr("5 dimensions"));
  GgufWriter partial;
  partial.Tensor("t", std::vector<std::int64_t>{31}, 8, {});
  EXPECT_THAT(message(partial), HasSubstr("rows of 31 values, expected a multiple of 32 for Q8_0"));
  GgufWriter missing;
  missing.Tensor("t", std::vector<std::int64_t>{64}, 0, {});
  EXPECT_THAT(message(missing), HasSubstr("tensor 't' needs 256 bytes"));
  GgufWriter overlapping;  // the first has 32 of the 128 bytes that it needs; others follow them
  const std::vector<float> few(8), enough(32);
  overlapping.TensorF32("early", std::vector<std::int64_t>{32}, few);
  overlapping.TensorF32("late", std::vector<std::int64_t>{32}, enough);
  EXPECT_THAT(message(overlapping),
              HasSubstr("x: tensors 'early' and 'late' overlap: expected the second after byte 128 "
                        "of the data, found it at 32"));
}

TEST(Gguf, EveryTruncationIsAnError) {
  const std::string whole = EveryType().Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_THROW(GgufFile(AsBytes(cut), "x"), Error) << size << " of " << whole.size();
  }
}

TEST(Gguf, FlippedBitsNeverCrash) {
  const std::string whole = EveryType().Bytes();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      const GgufFile file(AsBytes(flipped), "x");
      for (const std::string& name : file.tensors().Names()) file.tensors().GetAnyShape(name);
    } catch (const Error&) {
    }
  }
}

TEST(Gguf, SplitModelOpensByItsFirstPart) {
  const TempDirectory directory;
  const auto write = [&](int number, std::uint16_t stated) {
    GgufWriter writer;
    writer.Scalar<std::uint16_t>("split.no", 2, stated);
    writer.Scalar<std::uint16_t>("split.count", 2, 2);
    writer.TensorF32(number == 1 ? "first" : "second", std::vector<std::int64_t>{1},
                     std::vector<float>{static_cast<float>(number)});
    return directory.Write("m-0000" + std::to_string(number) + "-of-00002.gguf", writer.Bytes());
  };
  const auto first = write(1, 0);
  EXPECT_THROW(GgufFile{first}, Error);  // the second part is missing
  const auto second = write(2, 1);
  EXPECT_THAT(GgufFile(first).tensors().Names(), ElementsAre("first", "second"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { GgufFile{second}; }),
              HasSubstr("part 2 of 2 of a split model; open the first part"));
  write(2, 0);
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { GgufFile{first}; }),
              HasSubstr("expected split.no 1, found 0"));
}

TEST(Gguf, BigVocabularyIsQuick) {
  std::vector<std::string> tokens(150000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = "token" + std::to_string(i);
  GgufWriter writer;
  writer.Strings("tokenizer.ggml.tokens", tokens);
  const std::string bytes = writer.Bytes();
  const double start = testing_support::ThreadProcessorSeconds();
  const GgufFile file(AsBytes(bytes), "x");
  const auto read = *file.metadata().FindStringArray("tokenizer.ggml.tokens");
  const double seconds = testing_support::ThreadProcessorSeconds() - start;
  EXPECT_EQ(read.size(), tokens.size());
  EXPECT_EQ(read.back(), tokens.back());
  EXPECT_LT(seconds, 1.0);  // measured 3 ms; generous for sanitizers
}

TEST(Gguf, OracleFilesOpen) {
  for (const std::filesystem::path& path : testing_support::OraclesOf("gguf", ".gguf")) {
    const GgufFile file(path);
    for (const std::string& name : file.tensors().Names()) file.tensors().GetAnyShape(name);
    EXPECT_TRUE(file.tensors().Has("token_embd.weight"));
  }
}

}  // namespace
}  // namespace banyan
