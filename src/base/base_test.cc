// Hash and JSON limits.
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"

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

TEST(Json, DepthAndSyntaxAreErrors) {
  EXPECT_EQ(ParseJson("{\"a\":[1]}", "x")["a"][0], 1);
  EXPECT_THROW(ParseJson("{\"a\":", "x"), Error);
  EXPECT_THROW(ParseJson(std::string(100000, '['), "x"), Error);
  try {
    ParseJson("{bad", "file line 3");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("file line 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace banyan
