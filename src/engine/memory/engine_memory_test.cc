// Memory that is refused when an engine begins: fewer pages, then smaller steps, then an error.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/memory/engine_memory.h"
#include "support/error_message.h"
#include "support/forwarding_kernels.h"
#include "support/temp_directory.h"
#include "support/tiny_model.h"

namespace banyan {

namespace {

using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::ForwardingKernels;

// A device with little memory: allocations count, and those beyond what is there are refused.
class SmallDevice : public ForwardingKernels {
 public:
  using ForwardingKernels::ForwardingKernels;
  bool asynchronous() const override { return true; }
  const KernelOptions& options() const override {
    changed_options = ForwardingKernels::options();
    changed_options.eight_bit_products = eight_bits;
    return changed_options;
  }
  std::optional<std::int64_t> FreeDeviceMemory() const override { return said_free; }
  Tensor NewTensor(std::int64_t rows, std::int64_t columns) override {
    if (rows > most_rows) {
      throw Error(ErrorKind::kLimit, fmt::format("{} rows wanted, {} free", rows, most_rows));
    }
    return ForwardingKernels::NewTensor(rows, columns);
  }
  std::shared_ptr<KvMemory> NewKvMemory(const KvShape& shape, int pages) override {
    tried_pages.push_back(pages);
    if (pages > most_pages) {
      throw Error(ErrorKind::kLimit, fmt::format("{} pages wanted, {} free", pages, most_pages));
    }
    return ForwardingKernels::NewKvMemory(shape, pages);
  }

  std::int64_t said_free = 0;
  bool eight_bits = false;
  mutable KernelOptions changed_options;
  std::int64_t most_rows = 1 << 20;
  int most_pages = 1 << 20;
  std::vector<int> tried_pages;
};

class EngineMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const testing_support::TempDirectory directory;
    const testing_support::TinyShape shape{.family = "llama", .layers = 1, .seed = 5};
    LoadOptions options;
    options.model = testing_support::WriteTinyGguf(shape, directory.path() / "tiny.gguf").string();
    options.threads = 1;
    model_ = Model::Load(options);
    auto device = std::make_unique<SmallDevice>(std::move(model_->parts().kernels));
    device_ = device.get();
    model_->parts().kernels = std::move(device);
    const ModelConfig& config = model_->parts().config;
    page_bytes_ = device_->KvPageBytes(KvShapeOf(config));
    device_->said_free = page_bytes_ * 4000;
  }

  EngineMemory Allocate(const EngineOptions& options = {}) {
    return AllocateMemory(options, model_->parts());
  }

  std::shared_ptr<Model> model_;
  SmallDevice* device_ = nullptr;
  std::int64_t page_bytes_ = 0;
};

// A step has a row for each of many streams, but not for any number that somebody writes down.
TEST_F(EngineMemoryTest, ManyStreamsGetRowsWithinReason) {
  const auto rows_and_streams = [this](int batch_rows, int max_streams) {
    EngineOptions options;
    options.batch_rows = batch_rows;
    options.max_streams = max_streams;
    const EngineMemory memory = Allocate(options);
    return std::pair(memory.batch_rows, memory.max_streams);
  };
  EXPECT_EQ(rows_and_streams(0, 5), std::pair(2048, 5));
  EXPECT_EQ(rows_and_streams(0, 3000), std::pair(3000, 3000));
  EXPECT_EQ(rows_and_streams(0, 1'000'000), std::pair(8192, 8192));
  EXPECT_EQ(rows_and_streams(100, 3000), std::pair(100, 100));  // what was asked for
}

TEST_F(EngineMemoryTest, KvTakesWhatIsFreeLessWhatStepsNeed) {
  const EngineMemory memory = Allocate();
  EXPECT_EQ(memory.batch_rows, 2048);
  EXPECT_EQ(memory.max_streams, 1024);
  EXPECT_EQ(memory.kv->pages, 3000);  // a quarter stays where the need is larger than that
  EngineOptions asked;
  asked.kv_memory = page_bytes_ * 77;
  asked.batch_rows = 100;
  EXPECT_EQ(Allocate(asked).kv->pages, 77);
  EXPECT_EQ(Allocate(asked).max_streams, 100);
}

// Codes of what enters products: of the norm, of attention and of the feed-forward block.
TEST_F(EngineMemoryTest, EightBitProductsLeaveLessForKv) {
  device_->said_free = std::int64_t{5} << 30;  // a quarter is more than steps need
  device_->most_pages = 3000;                  // the first wish is what matters
  EngineOptions asked;
  asked.max_streams = 4096;
  std::int64_t wished[2] = {};
  for (const bool eight_bits : {false, true}) {
    device_->eight_bits = eight_bits;
    device_->tried_pages.clear();
    EXPECT_EQ(Allocate(asked).batch_rows, 4096);
    wished[eight_bits ? 1 : 0] = device_->tried_pages.front();
  }
  const std::int64_t codes = 4096 * 3 * (128 + 4);  // rows of 48, 48 and 80 values, padded to 128
  EXPECT_GE((wished[0] - wished[1] + 1) * page_bytes_, codes);
  EXPECT_LE((wished[0] - wished[1] - 1) * page_bytes_, codes);
}

TEST_F(EngineMemoryTest, LargerStepsWhereMemoryIsPlentiful) {
  EngineOptions asked;
  asked.kv_memory = page_bytes_ * 77;
  EXPECT_EQ(Allocate(asked).batch_rows, 2048);
  device_->said_free = std::int64_t{1} << 40;
  EXPECT_EQ(Allocate(asked).batch_rows, 4096);
  EXPECT_EQ(Allocate(asked).max_streams, 1024);
}

TEST_F(EngineMemoryTest, FewerPagesWhenTheyAreRefused) {
  device_->most_pages = 1500;
  const EngineMemory memory = Allocate();
  EXPECT_EQ(memory.batch_rows, 2048);
  EXPECT_LE(memory.kv->pages, 1500);
  EXPECT_GE(memory.kv->pages, 1500 * 3 / 4 - 4);
}

TEST_F(EngineMemoryTest, SmallerStepsWhenActivationsAreRefused) {
  device_->most_rows = 300;
  const EngineMemory memory = Allocate();
  EXPECT_EQ(memory.batch_rows, 256);
  EXPECT_EQ(memory.max_streams, 256);
  EXPECT_EQ(memory.forward->max_rows(), 256);
  EngineOptions asked;
  asked.batch_rows = 1000;
  asked.max_streams = 600;
  EXPECT_EQ(Allocate(asked).batch_rows, 250);
  EXPECT_EQ(Allocate(asked).max_streams, 250);
}

// Pages that were asked for are not made fewer: smaller steps may make room for them.
TEST_F(EngineMemoryTest, AnErrorNamesWhatWasWantedAndFree) {
  device_->most_pages = 50;
  const auto refused = [&](const EngineOptions& options) {
    return ErrorMessage(ErrorKind::kLimit, [&] { Allocate(options); });
  };
  EXPECT_THAT(refused({}), HasSubstr("pages wanted, 50 free"));
  device_->tried_pages.clear();
  EngineOptions asked;
  asked.kv_memory = page_bytes_ * 77;
  EXPECT_THAT(refused(asked), HasSubstr("77 pages wanted, 50 free"));
  EXPECT_EQ(device_->tried_pages, std::vector<int>(7, 77));  // 2048 to 32 rows
  device_->most_pages = 1 << 20;
  device_->most_rows = 20;
  EXPECT_THAT(refused({}), HasSubstr("32 rows wanted, 20 free"));
  device_->most_rows = 1 << 20;
  device_->said_free = page_bytes_;
  EXPECT_THAT(refused({}), HasSubstr("at least 2"));
}

}  // namespace

}  // namespace banyan
