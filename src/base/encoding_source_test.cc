#include "base/encoding_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "support/error_message.h"

namespace banyan {
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
