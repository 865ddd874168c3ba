// A step's runs of states (plan/batch.h) as a device takes them: in waves, whose runs can be
// computed at the same time, and cut into pieces for what needs no order of rows.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/batch.h"

namespace banyan {

// Rows of a piece.
inline constexpr int kStatePieceRows = 32;

// Rows [row_begin, row_end) of a run; the first piece of a run begins where the run does.
struct StatePiece {
  std::int32_t run = 0;  // of StateWaves::runs
  std::int32_t row_begin = 0, row_end = 0;
};

// Runs and pieces [begin, end) of the lists below.
struct StateWave {
  std::int32_t run_begin = 0, run_end = 0;
  std::int32_t piece_begin = 0, piece_end = 0;
  std::int32_t most_rows = 0;  // of a run
  auto operator<=>(const StateWave&) const = default;
};

struct StateWaves {
  std::vector<StateRun> runs;  // wave by wave
  std::vector<StatePiece> pieces;
  std::vector<StateWave> waves;
};

// A run is in a later wave than the earlier runs that leave the state it begins with, and than
// those that read or leave the slot it writes.
StateWaves WavesOf(std::span<const StateRun> runs);

}  // namespace banyan
