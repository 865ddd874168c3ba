#include "base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace banyan {
namespace {

TEST(Sha256, KnownDigests) {  // FIPS 180-4 examples
  EXPECT_EQ(ToHex(Sha256().Finish()),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(ToHex(Sha256().Add("abc").Finish()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      ToHex(Sha256().Add("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq").Finish()),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string text(1000, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  const Digest whole = Sha256().Add(text).Finish();
  for (size_t cut : {0, 1, 55, 63, 64, 65, 128, 999}) {
    EXPECT_EQ(Sha256().Add(text.substr(0, cut)).Add(text.substr(cut)).Finish(), whole) << cut;
  }
}

std::vector<std::byte> RandomBytes(size_t size) {
  std::mt19937 random(static_cast<unsigned>(size));
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

TEST(ContentHash, EveryFlippedBitIsNoticed) {
  for (const size_t size : {1u, 7u, 63u, 64u, 65u, 200u}) {
    std::vector<std::byte> bytes = RandomBytes(size);
    std::set<ContentKey> seen = {ContentHash().Add(bytes).Value()};
    for (size_t bit = 0; bit < size * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      EXPECT_TRUE(seen.insert(ContentHash().Add(bytes).Value()).second) << size << " bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

TEST(ContentHash, OrderAndLengthCount) {
  const std::string a(64, 'a'), b(64, 'b');
  std::set<ContentKey> seen;
  for (const std::string& text : {std::string(), a, b, a + b, b + a, a + a, std::string("a"),
                                  std::string(1, '\0'), std::string(2, '\0')}) {
    EXPECT_TRUE(seen.insert(ContentHash().Add(text).Value()).second) << text;
  }
}

TEST(ContentHash, DivisionDoesNotCount) {
  const std::vector<std::byte> bytes = RandomBytes(1000);
  const ContentKey whole = ContentHash().Add(bytes).Value();
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    ContentHash hash;
    for (size_t at = 0; at < bytes.size();) {
      const size_t part = std::min<size_t>(random() % 150, bytes.size() - at);
      hash.Add(std::span(bytes).subspan(at, part));
      at += part;
    }
    EXPECT_EQ(hash.Value(), whole);
    EXPECT_EQ(hash.bytes(), bytes.size());
  }
}

TEST(ContentHash, InParallelIsTheSameWithAnyThreads) {
  std::vector<std::byte> bytes = RandomBytes((size_t{9} << 20) + 5);
  ThreadPool one(1), three(3);
  const ContentKey key = HashInParallel(bytes, one);
  EXPECT_EQ(HashInParallel(bytes, three), key);
  for (const size_t at : {size_t{0}, size_t{4} << 20, bytes.size() - 1}) {
    bytes[at] ^= std::byte{1};
    EXPECT_NE(HashInParallel(bytes, three), key);
    bytes[at] ^= std::byte{1};
  }
  EXPECT_NE(HashInParallel({}, one), HashInParallel(std::span(bytes).first(1), one));
}

}  // namespace
}  // namespace banyan
