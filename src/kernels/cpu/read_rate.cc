#include "kernels/cpu/read_rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <vector>

namespace banyan {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;  // that a thread takes at once
constexpr size_t kLeastPieces = 16;
constexpr std::int64_t kPiecesEach = 32;  // of one run, for every thread
constexpr int kRuns = 3;

using Bytes = std::span<const std::byte>;

// A cache line, read in whatever vectors the machine has at least.
using Line = std::uint64_t __attribute__((vector_size(64)));

// Something that depends on every byte but the last few, so that all must be read.
std::uint64_t ReadAll(Bytes piece) {
  Line sums[2] = {};
  size_t at = 0;
  for (; at + sizeof(sums) <= piece.size(); at += sizeof(sums)) {
    Line lines[2];
    std::memcpy(lines, piece.data() + at, sizeof(lines));
    sums[0] ^= lines[0];
    sums[1] ^= lines[1];
  }
  sums[0] ^= sums[1];
  std::uint64_t all = 0;
  for (size_t i = 0; i < sizeof(Line) / sizeof(std::uint64_t); ++i) all ^= sums[0][i];
  return all;
}

std::vector<Bytes> PiecesOf(std::span<const Bytes> memory) {
  std::vector<Bytes> pieces;
  for (Bytes rest : memory) {
    while (!rest.empty()) {
      pieces.push_back(rest.first(std::min(rest.size(), kPieceBytes)));
      rest = rest.subspan(pieces.back().size());
    }
  }
  return pieces;
}

}  // namespace

double MeasureReadRate(std::span<const Bytes> memory, ThreadPool& pool) {
  using Clock = std::chrono::steady_clock;
  std::vector<Bytes> pieces = PiecesOf(memory);
  size_t there = 0;
  for (const Bytes piece : pieces) there += piece.size();
  const std::vector<std::byte> more(std::max(kLeastPieces * kPieceBytes, there) - there);
  const Bytes rest(more);
  for (const Bytes piece : PiecesOf({&rest, 1})) pieces.push_back(piece);

  const std::int64_t count = kPiecesEach * pool.size();
  std::atomic<std::uint64_t> seen = 0;
  double best = 0.0;
  for (int run = 0; run < kRuns; ++run) {
    const auto piece = [&](std::int64_t i) {
      return pieces[static_cast<size_t>(run * count + i) % pieces.size()];
    };
    const Clock::time_point start = Clock::now();
    pool.ForEach(count, [&](std::int64_t i, int) {
      seen.fetch_xor(ReadAll(piece(i)), std::memory_order_relaxed);
    });
    const std::chrono::duration<double> took = Clock::now() - start;
    double bytes = 0.0;
    for (std::int64_t i = 0; i < count; ++i) bytes += static_cast<double>(piece(i).size());
    best = std::max(best, bytes / std::max(took.count(), 1e-9));
  }
  return best;
}

}  // namespace banyan
