#include <gtest/gtest.h>
#include <vector>

#include "kernels/cpu/machine_rates.h"

namespace banyan {

namespace {

// No machine is slower or faster than that.
void ExpectPossible(double rate) {
  EXPECT_GT(rate, 1e7);
  EXPECT_LT(rate, 1e14);
}

TEST(ReadRate, OfAnyMemory) {
  const std::vector<std::byte> large((size_t{20} << 20) + 77), small(1000);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    ExpectPossible(MeasureReadRate({}, pool));
    const std::span<const std::byte> spans[] = {small, {}, large};
    ExpectPossible(MeasureReadRate(std::span(spans).first(1), pool));
    ExpectPossible(MeasureReadRate(spans, pool));
  }
}

}  // namespace

}  // namespace banyan
