#include "engine/step_row_limit.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(StepRowLimit, ARefusalHalvesStepsAndTimeDoublesThem) {
  StepRowLimit limit(100);
  EXPECT_EQ(limit.rows(), 100);
  limit.Refused(100);
  EXPECT_EQ(limit.rows(), 50);
  limit.Refused(30);  // the step had fewer rows than it might
  EXPECT_EQ(limit.rows(), 15);
  EXPECT_EQ(limit.refusals(), 2);
  int steps = 0;
  for (; limit.rows() == 15; ++steps) limit.Launched();
  EXPECT_EQ(steps, 32);
  EXPECT_EQ(limit.rows(), 30);
  for (int i = 0; i < 1000; ++i) limit.Launched();
  EXPECT_EQ(limit.rows(), 100);
}

TEST(StepRowLimit, ARefusalBeginsTheWaitAnew) {
  StepRowLimit limit(8);
  limit.Refused(8);
  for (int i = 0; i < 31; ++i) limit.Launched();
  limit.Refused(4);
  for (int i = 0; i < 31; ++i) limit.Launched();
  EXPECT_EQ(limit.rows(), 2);
  limit.Launched();
  EXPECT_EQ(limit.rows(), 4);
}

}  // namespace
}  // namespace banyan
