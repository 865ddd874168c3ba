#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/schedule/in_flight.h"

namespace banyan {

namespace {

TEST(InFlightSteps, AreTakenOldestFirstAndTheirMemoryIsUsedAgain) {
  InFlightSteps steps;
  EXPECT_EQ(steps.latest_choices(), nullptr);
  for (const int reader : {4, 5}) {
    LaunchedStep step = steps.New();
    step.readers.push_back(StreamId(reader));
    step.decode_only = true;
    steps.Add(std::move(step));
  }
  LaunchedStep oldest = steps.TakeOldest();
  EXPECT_THAT(oldest.readers, ::testing::ElementsAre(StreamId(4)));
  EXPECT_THAT(steps.latest().readers, ::testing::ElementsAre(StreamId(5)));
  const StreamId* const memory = oldest.readers.data();
  steps.Recycle(std::move(oldest));
  LaunchedStep next = steps.New();
  EXPECT_TRUE(next.readers.empty());
  EXPECT_FALSE(next.decode_only);
  next.readers.push_back(StreamId(6));
  EXPECT_EQ(next.readers.data(), memory);
}

TEST(InFlightSteps, AForgottenTokenGoesToNobody) {
  InFlightSteps steps;
  LaunchedStep step = steps.New();
  step.readers = {StreamId(0), StreamId(1)};
  steps.Add(std::move(step));
  Stream stream;
  steps.Forget(stream);  // nothing is chosen for it
  EXPECT_THAT(steps.latest().readers, ::testing::ElementsAre(StreamId(0), StreamId(1)));
  stream.tokens_in_flight = 1;
  stream.choice = 1;
  steps.Forget(stream);
  EXPECT_EQ(stream.tokens_in_flight, 0);
  EXPECT_THAT(steps.latest().readers, ::testing::ElementsAre(StreamId(0), StreamId()));
}

}  // namespace

}  // namespace banyan
