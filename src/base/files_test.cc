#include "base/files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

// Pages of this process that are in memory.
long ResidentPages() {
  std::ifstream file("/proc/self/statm");
  long size = 0, resident = 0;
  file >> size >> resident;
  return resident;
}

TEST(MappedFile, WhatIsForgottenLeavesMemoryAndCanBeReadAgain) {
  const TempDirectory directory;
  constexpr size_t kBytes = size_t{32} << 20;
  const MappedFile file(directory.Write("bytes", std::string(kBytes, 'x')));
  const auto count = [&] { return std::ranges::count(file.bytes(), std::byte{'x'}); };
  ASSERT_EQ(count(), static_cast<std::ptrdiff_t>(kBytes));
  const long before = ResidentPages();
  file.Forget(file.bytes().subspan(1, kBytes - 2));
  const long pages = static_cast<long>(kBytes / 65536);  // of the largest size that there is
  EXPECT_LE(ResidentPages(), before - pages / 2);
  EXPECT_EQ(count(), static_cast<std::ptrdiff_t>(kBytes));
}

TEST(MappedFile, BytesOfOthersAreNotForgotten) {
  const TempDirectory directory;
  const MappedFile file(directory.Write("bytes", std::string(1 << 20, 'x')));
  const std::string own(1 << 20, 'y');
  file.Forget(std::as_bytes(std::span(own)));
  EXPECT_EQ(std::ranges::count(own, 'y'), 1 << 20);
}

}  // namespace
}  // namespace banyan
