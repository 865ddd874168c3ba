#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "engine/request/stream.h"

namespace banyan {

namespace {

// The stream of a request with one answer.
std::unique_ptr<Stream> WaitingStream(RequestId id, int priority = 0, int branches = 1) {
  PromptSegment root;
  root.tokens = {1};
  root.answers.emplace_back();
  std::shared_ptr<RequestTree> tree = MakeRequestTree(root, /*sequential=*/false);
  tree->id = id;
  tree->priority = priority;
  WaitingQueue line;
  line.Add(tree);
  std::unique_ptr<Stream> stream = line.Take();
  stream->branches.resize(static_cast<size_t>(branches));
  return stream;
}

std::vector<RequestId> RequestsOf(const RunningStreams& running) {
  std::vector<RequestId> requests;
  for (const StreamId id : running.order()) {
    if (running.Has(id)) requests.push_back(running.at(id).request->id);
  }
  return requests;
}

TEST(RunningStreams, AreInOrderOfRank) {
  RunningStreams running;
  for (const RequestId id : {3, 1, 2}) running.Add(WaitingStream(id));
  running.Add(WaitingStream(9, /*priority=*/1));
  running.CheckInvariants();
  EXPECT_THAT(RequestsOf(running), ::testing::ElementsAre(9u, 1u, 2u, 3u));
  EXPECT_EQ(running.writing(), 4);
}

TEST(RunningStreams, ARemovedOneKeepsItsPlaceUntilItIsForgotten) {
  RunningStreams running;
  const StreamId first = running.Add(WaitingStream(1)).id;
  const StreamId second = running.Add(WaitingStream(2, 0, 3)).id;
  EXPECT_EQ(running.writing_branches(), 4);
  const std::unique_ptr<Stream> removed = running.Remove(first);
  EXPECT_EQ(removed->state, Stream::State::kWaiting);
  EXPECT_FALSE(removed->declared().running.valid());
  EXPECT_EQ(running.order().size(), 2u);
  EXPECT_EQ(running.writing_branches(), 3);
  running.CheckInvariants();
  running.ForgetRemoved();
  EXPECT_THAT(running.order(), ::testing::ElementsAre(second));
  EXPECT_EQ(running.Add(WaitingStream(3)).id, first);  // ids are used again
  running.CheckInvariants();
}

TEST(RunningStreams, AValueThatEndedRunsAndDoesNotWrite) {
  RunningStreams running;
  Stream& stream = running.Add(WaitingStream(1, 0, 2));
  running.MarkEnded(stream);
  EXPECT_FALSE(running.empty());
  EXPECT_EQ(running.writing(), 0);
  EXPECT_EQ(running.writing_branches(), 0);
  running.CheckInvariants();
  std::unique_ptr<Stream> waits = running.Remove(stream.id);
  running.ForgetRemoved();
  EXPECT_TRUE(running.empty());
  running.Add(std::move(waits));  // it runs again for those that see it
  EXPECT_EQ(running.writing(), 0);
  running.CheckInvariants();
}

TEST(RunningStreams, RandomOperationsKeepTheInvariants) {
  RunningStreams running;
  std::mt19937 random(5);
  RequestId next = 1;
  for (int i = 0; i < 2000; ++i) {
    const auto place = running.empty() ? 0 : random() % running.order().size();
    const bool alive = !running.empty() && running.Has(running.order()[place]);
    switch (random() % 4) {
      case 0:
        if (alive) running.Remove(running.order()[place]);
        break;
      case 1:
        if (alive && !running.at(running.order()[place]).ended) {
          running.MarkEnded(running.at(running.order()[place]));
        }
        break;
      default:
        running.ForgetRemoved();
        running.Add(WaitingStream(next++, static_cast<int>(random() % 3),
                                  1 + static_cast<int>(random() % 3)));
        if (running.order().size() > 20) running.Remove(running.order()[3]);
    }
    running.CheckInvariants();
  }
}

}  // namespace

}  // namespace banyan
