#include "kernels/units/state_waves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace banyan {
namespace {

using testing::ElementsAre;

std::vector<int> RunsOfWaves(const StateWaves& all) {
  std::vector<int> counts;
  for (const StateWave& wave : all.waves) counts.push_back(wave.run_end - wave.run_begin);
  return counts;
}

TEST(StateWaves, RunsOfDifferentSlotsAreOneWave) {
  const std::vector<StateRun> runs = {{0, 1, 3, 3}, {1, 2, 7, 7}, {2, 9, -1, 0}};
  EXPECT_THAT(RunsOfWaves(WavesOf(runs)), ElementsAre(3));
  EXPECT_THAT(RunsOfWaves(WavesOf({})), ElementsAre());
}

TEST(StateWaves, BranchesOfAStateThatIsThereAreOneWave) {
  const std::vector<StateRun> runs = {{0, 1, 3, 4}, {1, 2, 3, 5}, {2, 3, 3, 6}};
  EXPECT_THAT(RunsOfWaves(WavesOf(runs)), ElementsAre(3));
}

TEST(StateWaves, ARunIsAfterTheOneThatLeavesItsState) {
  const std::vector<StateRun> runs = {
      {0, 4, -1, 1}, {4, 9, 1, 2}, {9, 12, 2, 3}, {12, 14, 1, 4}, {14, 15, -1, 5}};
  const StateWaves all = WavesOf(runs);
  ASSERT_THAT(RunsOfWaves(all), ElementsAre(2, 2, 1));
  EXPECT_EQ(all.runs[0].to, 1);
  EXPECT_EQ(all.runs[1].to, 5);
  EXPECT_EQ(all.runs[4].to, 3);
}

TEST(StateWaves, ASlotIsWrittenAfterItsReaders) {
  const std::vector<StateRun> runs = {{0, 1, 3, 4}, {1, 2, 3, 3}, {2, 3, -1, 4}};
  const StateWaves all = WavesOf(runs);
  ASSERT_THAT(RunsOfWaves(all), ElementsAre(1, 2));
  EXPECT_EQ(all.runs[0].to, 4);
}

TEST(StateWaves, PiecesCoverEveryRun) {
  const std::vector<StateRun> runs = {{0, 70, -1, 0}, {70, 71, -1, 1}, {71, 135, 0, 2}};
  const StateWaves all = WavesOf(runs);
  ASSERT_EQ(all.pieces.size(), 6u);
  EXPECT_EQ(all.waves[0].piece_end, 4);
  EXPECT_EQ(all.waves[0].most_rows, 70);
  EXPECT_EQ(WavesOf(std::span(runs).subspan(1, 1)).waves[0].most_rows, 1);
  EXPECT_EQ(all.pieces[2].row_begin, 64);
  EXPECT_EQ(all.pieces[2].row_end, 70);
  EXPECT_EQ(all.pieces[3].run, 1);
  EXPECT_EQ(all.pieces[5].run, 2);
  EXPECT_EQ(all.pieces[5].row_end, 135);
}

// In order and by waves, what every run begins with is the same, whatever order a wave has.
TEST(StateWaves, AnyOrderWithinAWaveGivesWhatTheOrderOfTheStepGives) {
  std::mt19937 generator(5);
  for (int round = 0; round < 300; ++round) {
    const int slots = 2 + round % 6;
    std::vector<StateRun> runs;
    for (int i = 0; i < 12; ++i) {
      const auto slot = [&] { return static_cast<std::int32_t>(generator() % slots); };
      runs.push_back({i, i + 1, generator() % 4 == 0 ? -1 : slot(), slot()});
    }
    // A state's value is who computed it on top of what.
    const auto value = [](const StateRun& run, const std::vector<std::uint64_t>& state) {
      const std::uint64_t before = run.from < 0 ? 7 : state[static_cast<size_t>(run.from)];
      return before * 1000003 + static_cast<std::uint64_t>(run.row_begin) + 1;
    };
    std::vector<std::uint64_t> in_order(static_cast<size_t>(slots), 0), by_waves = in_order;
    for (const StateRun& run : runs) in_order[static_cast<size_t>(run.to)] = value(run, in_order);
    const StateWaves all = WavesOf(runs);
    for (const StateWave& wave : all.waves) {
      const std::vector<std::uint64_t> before = by_waves;  // a wave's runs all begin here
      for (int i = wave.run_end - 1; i >= wave.run_begin; --i) {
        const StateRun& run = all.runs[static_cast<size_t>(i)];
        by_waves[static_cast<size_t>(run.to)] = value(run, before);
      }
    }
    ASSERT_EQ(by_waves, in_order) << "round " << round;
  }
}

}  // namespace
}  // namespace banyan
