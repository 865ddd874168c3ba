// What is there stays unless somebody says otherwise, and a file is whole or not there.
#include "program/fresh_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>

#include "program/message_text.h"
#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::TempDirectory;

std::string TextOfFile(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(FreshFile, WhatHoldsSomethingIsRefused) {
  const TempDirectory folder;
  const std::string file = folder.Write("a.html", "mine").string();
  EXPECT_THAT(ErrorMessage(ErrorKind::kUsage, [&] { GuardOutput(file, "--report", false); }),
              AllOf(HasSubstr("a.html: is there already (4 bytes of "), HasSubstr("--report"),
                    HasSubstr("--overwrite")));
  ErrorMessage(ErrorKind::kUsage, [&] { WriteFreshFile(file, "--report", false, "new"); });
  EXPECT_EQ(TextOfFile(file), "mine");
  WriteFreshFile(file, "--report", true, "new");
  EXPECT_EQ(TextOfFile(file), "new");
}

TEST(FreshFile, NothingIsLostOfNothing) {
  const TempDirectory folder;
  GuardOutput((folder.path() / "new").string(), "-o", false);
  GuardOutput(folder.Write("empty", "").string(), "-o", false);
  GuardOutput("-", "-o", false);
  GuardOutput("/dev/null", "-o", false);
  WriteFreshFile("/dev/null", "-o", false, "gone");
}

TEST(FreshFile, ItAppearsWholeOrNotAtAll) {
  const TempDirectory folder;
  const fs::path file = folder.Write("a", "old");
  {
    FreshFile fresh(file.string(), "-o", true);
    fresh.stream() << "half";
    fresh.stream().flush();
    EXPECT_EQ(TextOfFile(file), "old");
  }
  EXPECT_EQ(TextOfFile(file), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(FreshFile, LinksAndPermissionsStay) {
  const TempDirectory folder;
  const fs::path file = folder.Write("real", "old"), link = folder.path() / "link";
  fs::create_symlink("real", link);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  WriteFreshFile(link.string(), "-o", true, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(TextOfFile(file), "new");
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(FreshFile, PlacesThatCannotBeWrittenAreNamed) {
  const TempDirectory folder;
  const std::string inside = (folder.path() / "no" / "such").string();
  EXPECT_THAT(ErrorMessage(ErrorKind::kIo, [&] { WriteFreshFile(inside, "--plot", false, "x"); }),
              AllOf(HasSubstr("--plot"), HasSubstr(inside)));
  ErrorMessage(ErrorKind::kIo, [&] { WriteFreshFile(folder.path().string(), "-o", true, "x"); });
  ErrorMessage(ErrorKind::kIo, [&] { WriteFreshFile("/dev/full", "-o", true, "x"); });
}

}  // namespace
}  // namespace banyan
