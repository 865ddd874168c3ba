// What loading a model says and refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/model.h"

namespace banyan {
namespace {

LoadOptions ShippedModel() {
  LoadOptions options;
  options.model = BANYAN_SOURCE_DIR "/models/banyan-reader-15m.gguf";
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

}  // namespace
}  // namespace banyan
