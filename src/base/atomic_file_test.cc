// What is there stays unless somebody says otherwise, and a file is whole or not there.
#include "base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "program/fresh_file.h"
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

TEST(AtomicFile, TheOldFileStaysUntilCommit) {
  const TempDirectory folder;
  const std::string target = folder.Write("a", "old").string(), temporary = target + ".new";
  {
    AtomicFile file(target, temporary, 0600);
    file.Write("half");
  }
  EXPECT_EQ(TextOfFile(target), "old");
  EXPECT_FALSE(fs::exists(temporary));
  AtomicFile file(target, temporary, 0600);
  file.Write("new");
  EXPECT_EQ(TextOfFile(target), "old");
  file.Commit();
  EXPECT_EQ(TextOfFile(target), "new");
  EXPECT_FALSE(fs::exists(temporary));
  EXPECT_EQ(fs::status(target).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(AtomicFile, LinksUnderTheTemporaryNameAreNotFollowed) {
  const TempDirectory folder;
  const fs::path others = folder.Write("others", "theirs"), target = folder.path() / "a";
  fs::create_symlink(others, folder.path() / "a.new");
  WriteFileAtomically(target.string(), target.string() + ".new", 0600, "mine");
  EXPECT_EQ(TextOfFile(target), "mine");
  EXPECT_EQ(TextOfFile(others), "theirs");
}

TEST(AtomicFile, FailuresLeaveNothing) {
  const TempDirectory folder;
  const std::string target = (folder.path() / "folder").string();
  fs::create_directory(target);
  EXPECT_THAT(ErrorMessage(ErrorKind::kIo,
                           [&] { WriteFileAtomically(target, target + ".new", 0600, "x"); }),
              HasSubstr(target + ": cannot write: "));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  const std::string inside = (folder.path() / "no" / "such").string();
  ErrorMessage(ErrorKind::kIo, [&] { WriteFileAtomically(inside, inside + ".new", 0600, "x"); });
}

TEST(ReplaceFile, FilesAndWholeFolders) {
  const TempDirectory folder;
  const fs::path from = folder.path() / "from", to = folder.path() / "to";
  fs::create_directories(from / "deep");
  std::ofstream(from / "deep" / "file") << "text";
  fs::create_symlink("nowhere", from / "link");
  EXPECT_TRUE(ReplaceFile(from.string(), to.string())) << std::strerror(errno);
  EXPECT_EQ(TextOfFile(to / "deep" / "file"), "text");
  EXPECT_FALSE(fs::exists(from));
  EXPECT_FALSE(ReplaceFile(from.string(), to.string()));
  EXPECT_EQ(errno, ENOENT);
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
