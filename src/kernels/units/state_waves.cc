#include "kernels/units/state_waves.h"

#include <algorithm>
#include <unordered_map>

namespace banyan {
namespace {

// The first waves that may read and that may write a slot.
struct SlotUse {
  std::int32_t readable = 0, writable = 0;
};

// [runs]
std::vector<std::int32_t> WaveOfEach(std::span<const StateRun> runs) {
  std::unordered_map<std::int32_t, SlotUse> uses;
  std::vector<std::int32_t> waves;
  for (const StateRun& run : runs) {
    std::int32_t wave = uses[run.to].writable;
    if (run.from >= 0) wave = std::max(wave, uses[run.from].readable);
    waves.push_back(wave);
    if (run.from >= 0) uses[run.from].writable = std::max(uses[run.from].writable, wave + 1);
    uses[run.to] = {wave + 1, wave + 1};
  }
  return waves;
}

}  // namespace

StateWaves WavesOf(std::span<const StateRun> runs) {
  const std::vector<std::int32_t> wave_of = WaveOfEach(runs);
  const std::int32_t count = wave_of.empty() ? 0 : *std::ranges::max_element(wave_of) + 1;
  StateWaves all;
  for (std::int32_t wave = 0; wave < count; ++wave) {
    StateWave& range = all.waves.emplace_back();
    range.run_begin = static_cast<std::int32_t>(all.runs.size());
    range.piece_begin = static_cast<std::int32_t>(all.pieces.size());
    for (size_t i = 0; i < runs.size(); ++i) {
      if (wave_of[i] != wave) continue;
      const auto index = static_cast<std::int32_t>(all.runs.size());
      all.runs.push_back(runs[i]);
      range.most_rows = std::max(range.most_rows, runs[i].row_end - runs[i].row_begin);
      for (std::int32_t r = runs[i].row_begin; r < runs[i].row_end; r += kStatePieceRows) {
        all.pieces.push_back({index, r, std::min(r + kStatePieceRows, runs[i].row_end)});
      }
    }
    range.run_end = static_cast<std::int32_t>(all.runs.size());
    range.piece_end = static_cast<std::int32_t>(all.pieces.size());
  }
  return all;
}

}  // namespace banyan
