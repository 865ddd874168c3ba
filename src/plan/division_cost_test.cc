#include "plan/division_cost.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

constexpr MachineRates kMachine{.flops_per_second = 1e12, .bytes_per_second = 1e11};
constexpr LinkRates kLink{.bytes_per_second = 1e10, .gather_seconds = 1e-5};

DivisionSizes Sizes() {
  DivisionSizes sizes;
  sizes.model = {.row_parameters = 1e9,
                 .logit_parameters = 1e8,
                 .weight_bytes = 2e9,
                 .layers = 10,
                 .heads = 16,
                 .head_dim = 64,
                 .kv_bytes_per_key = 1e4};
  sizes.weight_bytes = 2.2e9;
  sizes.kv_heads = 8;
  sizes.gathered_bytes = 10 * 4 * 4096;
  sizes.gathers = 40;
  return sizes;
}

constexpr JobWork kPrefill{
    .prefill_rows = 1e6, .answers = 1000, .prompt_tokens = 1e6, .step_rows = 1000, .streams = 100};
constexpr JobWork kDecode{
    .decode_rows = 1e5, .answers = 1000, .prompt_tokens = 1e5, .step_rows = 1000, .streams = 2};

double Seconds(const JobWork& work, int devices, int shards, const LinkRates& link = kLink) {
  return SecondsOfDivision(Sizes(), work, devices, shards, kMachine, link);
}

TEST(DivisionCost, DocumentsDivideTheTime) {
  EXPECT_NEAR(Seconds(kPrefill, 4, 1), Seconds(kPrefill, 1, 1) / 4, 1e-6 * Seconds(kPrefill, 1, 1));
  EXPECT_NEAR(Seconds(kDecode, 4, 1), Seconds(kDecode, 1, 1) / 4, 0.01 * Seconds(kDecode, 1, 1));
}

// 2 flops for a parameter and row at 1 TFLOP/s, attention apart.
TEST(DivisionCost, OneDeviceTakesWhatTheRatesSay) {
  const double products = 2.0 * (1e9 * 1e6 + 1e8 * 1000) / 1e12;
  EXPECT_GT(Seconds(kPrefill, 1, 1), products);
  EXPECT_LT(Seconds(kPrefill, 1, 1), 1.1 * products);
  // Every step of 2 streams reads 2 GB at 100 GB/s.
  EXPECT_NEAR(Seconds(kDecode, 1, 1), 5e4 * 2e9 / 1e11, 0.1 * 5e4 * 2e9 / 1e11);
}

TEST(DivisionCost, ShardsDivideWeightsAndPayForGathers) {
  const LinkRates none{.bytes_per_second = 1e30, .gather_seconds = 0.0};
  for (const JobWork& work : {kPrefill, kDecode}) {
    const double one = Seconds(work, 1, 1);
    EXPECT_NEAR(Seconds(work, 1, 2, none), one / 2, 0.01 * one);
    EXPECT_GT(Seconds(work, 1, 2), Seconds(work, 1, 2, none));
    EXPECT_GT(Seconds(work, 1, 2), Seconds(work, 2, 1));  // documents gather nothing
  }
  // Bytes of a row, half of them from the other shard; 40 gathers of each of 1000 steps.
  const double gathers = 1e6 * 10 * 4 * 4096 / 2 / 1e10 + 1000 * 40 * 1e-5;
  EXPECT_NEAR(Seconds(kPrefill, 1, 2) - Seconds(kPrefill, 1, 2, none), gathers, 1e-6 * gathers);
}

TEST(DivisionCost, NothingToDoTakesNoTime) {
  EXPECT_EQ(Seconds({.step_rows = 10, .streams = 1}, 1, 1), 0.0);
  EXPECT_EQ(Seconds({.step_rows = 10, .streams = 1}, 2, 2), 0.0);
}

}  // namespace
}  // namespace banyan
