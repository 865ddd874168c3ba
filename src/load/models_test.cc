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

#include "hub/locate.h"
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

class ReadersTest : public ::testing::Test {
 protected:
  void Fetched(const std::string& model) const {
    std::filesystem::create_directories(ModelCacheDirectory() / model);
  }

  const testing_support::TempDirectory folder_;
  const Variable cache_{"BANYAN_CACHE", folder_.path().string()};
  const Variable named_{"BANYAN_MODEL", ""};
};

MATCHER_P2(Reads, model, adapter, "") { return arg.model == model && arg.adapter == adapter; }

TEST_F(ReadersTest, WhatWasChosenDoesItsTasksOnceItIsThere) {
  const std::string shipped = DefaultModel();
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk), Reads(shipped, ""));
  ChooseReader("small");
  EXPECT_EQ(ChosenReader(), "");  // chosen, and not there
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk), Reads(shipped, ""));
  Fetched("smollm2-135m-instruct");
  EXPECT_EQ(ChosenReader(), "small");
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk), Reads("smollm2-135m-instruct", "smollm2-reader"));
  EXPECT_THAT(ReaderFor(ReaderTask::kExtract), Reads("smollm2-135m-instruct", "smollm2-extract"));
  EXPECT_THAT(ReaderFor(ReaderTask::kRag), Reads("smollm2-135m-instruct", "smollm2-reader"));
  ChooseReader("better");  // as it was kept before there were sizes
  EXPECT_EQ(ChosenReader(), "small");
  Fetched("qwen2.5-coder-1.5b-instruct");
  ChooseReader("large");
  for (const ReaderTask task : {ReaderTask::kAsk, ReaderTask::kExtract, ReaderTask::kRag}) {
    EXPECT_THAT(ReaderFor(task), Reads("qwen2.5-coder-1.5b-instruct", "qwen2.5-coder-1.5b-reader"));
  }
  {
    const Variable other("BANYAN_MODEL", shipped);
    EXPECT_THAT(ReaderFor(ReaderTask::kAsk), Reads(shipped, ""));
  }
  ChooseReader("shipped");
  EXPECT_THAT(ReaderFor(ReaderTask::kExtract), Reads(shipped, ""));
}

TEST_F(ReadersTest, AModelThatIsNamedHasTheAdapterThatShipsForIt) {
  const std::string model = "smollm2-135m-instruct";
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, model), Reads(model, "smollm2-reader"));
  EXPECT_THAT(ReaderFor(ReaderTask::kExtract, model), Reads(model, "smollm2-extract"));
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, model, "none"), Reads(model, ""));
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, model, "mine"), Reads(model, "mine"));
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, "other"), Reads("other", ""));
  // By the path of its folder, or of its weights.
  Fetched(model);
  const std::string path = (ModelCacheDirectory() / model).string();
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, path), Reads(path, "smollm2-reader"));
  const std::string file = path + "/weights.gguf";
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, file), Reads(file, "smollm2-reader"));
}

TEST_F(ReadersTest, AnAdapterThatIsNamedAloneBringsItsModel) {
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, "", "smollm2-extract"),
              Reads("smollm2-135m-instruct", "smollm2-extract"));
  EXPECT_THAT(ReaderFor(ReaderTask::kAsk, "", "of-nobody"), Reads(DefaultModel(), "of-nobody"));
}

TEST_F(ReadersTest, OffersAreALadder) {
  const std::vector<ReaderOffer> offers = ReaderOffers();
  ASSERT_EQ(offers.size(), 3u);
  EXPECT_EQ(offers[0].size, "small");
  EXPECT_EQ(offers[2].size, "large");
  for (size_t i = 0; i < offers.size(); ++i) {
    EXPECT_EQ(offers[i].adapters.size(), 3u) << offers[i].size;
    EXPECT_GT(offers[i].questions, 0) << offers[i].size;
    if (i > 0) {
      EXPECT_GT(offers[i].download, offers[i - 1].download);
      EXPECT_GT(offers[i].memory, offers[i - 1].memory);
      EXPECT_GE(offers[i].right, offers[i - 1].right);
    }
  }
  EXPECT_LT(ShippedReader().right, offers[0].right);
}

TEST(ShareInterval, IsWilsons) {
  const auto [least, most] = ShareInterval(84, 100);
  EXPECT_NEAR(least, 0.7558, 1e-4);
  EXPECT_NEAR(most, 0.8990, 1e-4);
  EXPECT_DOUBLE_EQ(ShareInterval(10, 10).second, 1.0);
  EXPECT_DOUBLE_EQ(ShareInterval(0, 10).first, 0.0);
}

TEST_F(ReadersTest, AFetchSaysHowManyBytesAreThere) {
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
