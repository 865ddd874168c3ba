// The default model of a task, and the progress of a fetch.
#include <stdlib.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "formats/locate.h"
#include "program/models.h"
#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {

namespace {

// An environment variable that has its old value again at the end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (old_) ::setenv(name_, old_->c_str(), 1);
    if (!old_) ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class BetterReaderTest : public ::testing::Test {
 protected:
  const testing_support::TempDirectory folder_;
  const Variable cache_{"BANYAN_CACHE", folder_.path().string()};
  const Variable named_{"BANYAN_MODEL", ""};
};

TEST_F(BetterReaderTest, DoesTheTasksThatItHasAnAdapterForOnceItWasChosen) {
  const std::string shipped = DefaultModel();
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kAsk).model, shipped);
  ChooseReader(ReaderChoice::kBetter);
  // It was chosen, and is not there.
  EXPECT_EQ(ChosenReader(), ReaderChoice::kNone);
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kAsk).model, shipped);
  std::filesystem::create_directories(ModelCacheDirectory() / "smollm2-135m-instruct");
  EXPECT_EQ(ChosenReader(), ReaderChoice::kBetter);
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kAsk).model, "smollm2-135m-instruct");
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kAsk).adapter, "smollm2-reader");
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kExtract).model, "smollm2-135m-instruct");
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kExtract).adapter, "smollm2-extract");
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kRag).model, "smollm2-135m-instruct");
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kRag).adapter, "smollm2-reader");
  {
    const Variable other("BANYAN_MODEL", shipped);
    EXPECT_EQ(DefaultReaderFor(ReaderTask::kAsk).model, shipped);
    EXPECT_EQ(DefaultReaderFor(ReaderTask::kAsk).adapter, "");
  }
  ChooseReader(ReaderChoice::kShipped);
  EXPECT_EQ(DefaultReaderFor(ReaderTask::kExtract).model, shipped);
}

TEST_F(BetterReaderTest, AFetchSaysHowManyBytesAreThere) {
  // Stands for pip: writes 3 MB where pip would, waits to be seen, and fails.
  const std::filesystem::path python = folder_.path() / "python3";
  std::ofstream(python) << "#!/bin/sh\nmkdir \"$TMPDIR/pip-unpack\"\n"
                           "head -c 3000000 /dev/zero >\"$TMPDIR/pip-unpack/a.whl\"\n"
                           "sleep 0.7\nexit 3\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const Variable path("PATH", folder_.path().string() + ":" + std::getenv("PATH"));
  std::vector<std::int64_t> heard;
  std::int64_t of = 0;
  testing_support::ErrorMessage(ErrorKind::kIo, [&] {
    FetchModel(
        "smollm2-135m-instruct", [](const std::string&) {},
        [&](std::int64_t done, std::int64_t total) {
          heard.push_back(done);
          of = total;
        });
  });
  EXPECT_THAT(heard, ::testing::Contains(3'000'000));
  EXPECT_GT(of, 90'000'000);
  EXPECT_TRUE(std::ranges::is_sorted(heard));
  // Nothing is left behind.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    EXPECT_NE(entry.path().extension(), ".whl") << entry.path();
  }
}

}  // namespace

}  // namespace banyan
