#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/error.h"
#include "support/error_message.h"
#include "support/safetensors_writer.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::SafetensorsBytes;
using testing_support::SafetensorsWriter;
using testing_support::TempDirectory;

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string MessageOfBytes(const std::string& bytes) {
  return ErrorMessage(ErrorKind::kFormat, [&] { ReadSafetensors(BytesOf(bytes), "x"); });
}

SafetensorsWriter Small() {
  SafetensorsWriter writer;
  writer.TensorF32("a", std::vector<std::int64_t>{2, 1}, std::vector<float>{1.0f, 2.0f});
  writer.Tensor("b", "BF16", std::vector<std::int64_t>{3}, std::vector<std::byte>(6));
  writer.Tensor("c", "I64", std::vector<std::int64_t>{1}, std::vector<std::byte>(8));
  writer.Tensor("empty", "F16", std::vector<std::int64_t>{0, 4}, {});
  return writer;
}

TEST(Safetensors, ReadsTensors) {
  const std::string bytes = Small().Bytes();
  const TensorStore store = ReadSafetensors(BytesOf(bytes), "x");
  EXPECT_THAT(store.Names(), ElementsAre("a", "b", "c", "empty"));
  EXPECT_EQ(store.Get("a", {2, 1}).dtype, DType::kF32);
  EXPECT_EQ(store.Get("b", {3}).bytes.size(), 6u);
  EXPECT_EQ(store.Get("empty", {0, 4}).bytes.size(), 0u);
  EXPECT_EQ(store.TotalBytes(), 22u);
  EXPECT_EQ(ErrorMessage(ErrorKind::kUnsupported, [&] { store.Get("c", {1}); }),
            "x: tensor 'c' has element type I64, which cannot be read");
  EXPECT_EQ(ErrorMessage(ErrorKind::kFormat,
                         [&] {
                           store.Get("b", {3, 1});
                         }),
            "x: tensor 'b': expected shape [3, 1], found [3]");
}

TEST(Safetensors, BytesAreFetchedAsSuch) {
  SafetensorsWriter writer = Small();
  writer.Tensor("d", "U8", std::vector<std::int64_t>{2, 2}, std::vector<std::byte>(4));
  const std::string bytes = writer.Bytes();
  const TensorStore store = ReadSafetensors(BytesOf(bytes), "x");
  const std::vector<std::int64_t> shape = {2, 2}, other = {4};
  EXPECT_EQ(store.GetBytes("d", shape).bytes.size(), 4u);
  EXPECT_NE(store.FindBytes("d"), nullptr);
  EXPECT_EQ(store.FindBytes("a"), nullptr);
  EXPECT_EQ(store.FindBytes("nothing"), nullptr);
  EXPECT_EQ(ErrorMessage(ErrorKind::kFormat, [&] { store.GetBytes("d", other); }),
            "x: tensor 'd': expected shape [4], found [2, 2]");
  EXPECT_EQ(ErrorMessage(ErrorKind::kUnsupported, [&] { store.GetBytes("b", other); }),
            "x: tensor 'b': expected element type U8, found BF16");
  EXPECT_EQ(ErrorMessage(ErrorKind::kUnsupported, [&] { store.GetBytes("c", other); }),
            "x: tensor 'c': expected element type U8, found I64");
  EXPECT_EQ(ErrorMessage(ErrorKind::kUnsupported, [&] { store.GetAnyShape("d"); }),
            "x: tensor 'd' has element type U8, which cannot be read");
  EXPECT_THAT(MessageOfBytes(SafetensorsBytes(
                  R"({"d":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}})", "abcd")),
              HasSubstr("needs 5 bytes"));
}

TEST(Safetensors, MetadataIsNoTensor) {
  const std::string bytes = SafetensorsBytes(R"({"__metadata__":{"format":"pt"}})", "");
  EXPECT_TRUE(ReadSafetensors(BytesOf(bytes), "x").Empty());
}

TEST(Safetensors, RefusesBrokenHeaders) {
  const auto one = [](const char* entry, const std::string& data) {
    return MessageOfBytes(SafetensorsBytes(std::string("{\"t\":") + entry + "}", data));
  };
  EXPECT_THAT(MessageOfBytes("\x01"), HasSubstr("cut short"));
  EXPECT_THAT(MessageOfBytes(std::string(8, '\x7f')), HasSubstr("not a safetensors file"));
  EXPECT_THAT(MessageOfBytes(SafetensorsBytes("[]", "")), HasSubstr("expected an object"));
  EXPECT_THAT(MessageOfBytes(SafetensorsBytes("{", "")), HasSubstr("not valid JSON"));
  EXPECT_THAT(one("3", ""), HasSubstr("tensor 't': expected an object"));
  EXPECT_THAT(one("{}", ""), HasSubstr("expected 'dtype' to be string, found nothing"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})", "1234"),
              HasSubstr("outside the file's 4 bytes"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", "1234"),
              HasSubstr("data_offsets 4 to 0"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", "1234"),
              HasSubstr("F32 of shape [2] needs 8 bytes"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", "1234"),
              HasSubstr("unsigned integer"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1e3],"data_offsets":[0,4]})", "1234"),
              HasSubstr("unsigned integer"));
  EXPECT_THAT(
      one(R"({"dtype":"F32","shape":[9000000000,9000000000],"data_offsets":[0,4]})", "1234"),
      HasSubstr("too large"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[0,9000000000,9000000000],"data_offsets":[0,0]})", ""),
              HasSubstr("too large"));
  EXPECT_THAT(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", "12345678"),
              HasSubstr("end at data byte 4, the file's data has 8"));
}

TEST(Safetensors, RefusesOverlapAndGap) {
  const auto two = [](const char* begin, const char* end) {
    const std::string header =
        std::string(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)") +
        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[)" + begin + "," + end + "]}}";
    return MessageOfBytes(SafetensorsBytes(header, "123456789"));
  };
  EXPECT_THAT(two("3", "7"), HasSubstr("tensor 'b' starts at data byte 3, expected 4 (overlap)"));
  EXPECT_THAT(two("5", "9"), HasSubstr("tensor 'b' starts at data byte 5, expected 4 (gap)"));
}

TEST(Safetensors, EveryTruncationIsAnError) {
  const std::string whole = Small().Bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = whole.substr(0, size);
    EXPECT_THROW(ReadSafetensors(BytesOf(cut), "x"), Error) << size;
  }
}

TEST(Safetensors, FlippedBitsNeverCrash) {
  const std::string whole = Small().Bytes();
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    try {
      ReadSafetensors(BytesOf(flipped), "x");
    } catch (const Error&) {
    }
  }
}

TEST(Safetensors, OpensDirectoriesFilesAndShards) {
  const TempDirectory directory;
  EXPECT_THAT(ErrorMessage(ErrorKind::kNotFound, [&] { OpenSafetensors(directory.path()); }),
              HasSubstr("expected model.safetensors or model.safetensors.index.json"));
  directory.Write("heads.safetensors", Small().Bytes());
  EXPECT_TRUE(OpenSafetensors(directory.path() / "heads.safetensors").Has("b"));
  directory.Write("model.safetensors", Small().Bytes());
  EXPECT_TRUE(OpenSafetensors(directory.path()).Has("a"));

  SafetensorsWriter first, second;
  first.TensorF32("x", std::vector<std::int64_t>{1}, std::vector<float>{1.0f});
  second.TensorF32("y", std::vector<std::int64_t>{1}, std::vector<float>{2.0f});
  directory.Write("part-1.safetensors", first.Bytes());
  directory.Write("part-2.safetensors", second.Bytes());
  const auto index = [&](const char* map) {
    directory.Write("model.safetensors.index.json", std::string("{\"weight_map\":") + map + "}");
  };
  index(R"({"x":"part-1.safetensors","y":"part-2.safetensors"})");
  TensorStore store = OpenSafetensors(directory.path());
  EXPECT_THAT(store.Names(), ElementsAre("x", "y"));
  const TensorStore moved = std::move(store);
  EXPECT_EQ(moved.Get("y", {1}).bytes.size(), 4u);

  const auto message = [&] {
    return ErrorMessage(ErrorKind::kFormat, [&] { OpenSafetensors(directory.path()); });
  };
  index(R"({"x":"part-1.safetensors","z":"part-2.safetensors"})");
  EXPECT_THAT(message(), HasSubstr("tensor 'z' is not in part-2.safetensors"));
  index(R"({"x":"../part-1.safetensors"})");
  EXPECT_THAT(message(), HasSubstr("expected a .safetensors file beside the index"));
  index(R"({"x":3})");
  EXPECT_THAT(message(), HasSubstr("expected a file name"));
  index("[]");
  EXPECT_THAT(message(), HasSubstr("expected 'weight_map' to be object, found array"));
  directory.Write("part-2.safetensors", first.Bytes());
  index(R"({"x":"part-1.safetensors","y":"part-2.safetensors"})");
  EXPECT_THAT(message(), HasSubstr("tensor 'x' is there twice"));
  index(R"({"x":"part-3.safetensors"})");
  ErrorMessage(ErrorKind::kNotFound, [&] { OpenSafetensors(directory.path()); });
}

}  // namespace
}  // namespace banyan
