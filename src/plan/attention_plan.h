// The attention of one step as plain data: all that kernels ever see of the forest.
//
// Canonical order (what makes a row's bits independent of its company): a row's path is a list of
// declared segments; a segment is cut every `kCutKeys` keys from its own start; `kCutsPerGroup`
// cuts make a group, `kGroupsPerChunk` groups a chunk. A segment may be stored as several
// spans, divided at cuts.
//
//   segment  |-cut-|-cut-|-cut-|-cut-|-cut-|-cut-|-cut-|-cut-|-cut-| |
//            |- group (here 2) |-- group --|-- group --|-- group --| |
//            |------- chunk (here 2) ----|-------- chunk ------| |
//
// The partial of a cut is computed from nothing; the cuts of a group are merged left to right, the
// groups of a chunk left to right, the chunks of all segments of the path left to right. An
// item covers one cut; or a run of cuts that starts at a group's start and ends within the group;
// or a run of groups that starts at a chunk's start and ends within the chunk, the last of them
// short only where the segment ends. Merged from the left on the way, it gives the bits of its
// parts merged later. Partials in which a row sees no key are empty and skipped.
//
// Where a row has a parallel context on its path, that comes first: once all chunks of the
// context are merged, what they weigh together is scaled; then come the chunks of the rest.
#pragma once

#include <cstdint>
#include <vector>

namespace banyan {

inline constexpr int kCutKeys = 128;       // a multiple of kPageTokens
inline constexpr int kCutsPerGroup = 8;    // so a group has 1024 keys
inline constexpr int kGroupsPerChunk = 4;  // so a chunk has 4096 keys
inline constexpr int kGroupKeys = kCutKeys * kCutsPerGroup;
inline constexpr int kCutsPerChunk = kCutsPerGroup * kGroupsPerChunk;
inline constexpr int kChunkKeys = kCutKeys * kCutsPerChunk;

// The keys of one node that exist in this step (those appended by this very step included).
struct KvSpan {
  std::int32_t first_page = 0;  // index into AttentionPlan::pages; ceil(length / kPageTokens) pages
  std::int32_t length = 0;      // keys
  std::int32_t first_position = 0;  // key i stands at position first_position + i
  // Cuts of its first chunk that lie in earlier spans of the segment; below kCutsPerChunk.
  std::int32_t chunk_phase = 0;
};

// Attention of rows [row_begin, row_end) over keys [key_begin, key_end) of a span. Row r sees key i
// iff position(i) <= position(r), and within a window W: position(r) - position(i) < W.
// Only the rows [reader_begin, reader_end), perhaps none, have the span on their path; the others
// (stacked execution) are computed and thrown away.
struct WorkItem {
  std::int32_t row_begin = 0, row_end = 0;
  std::int32_t reader_begin = 0, reader_end = 0;
  std::int32_t span = 0;
  std::int32_t key_begin = 0, key_end = 0;  // begins at a cut of the span
  std::int32_t first_partial = 0;           // of row reader_begin; later readers follow
};

// Texts that were computed apart and that rows read side by side as one context (Adaptive Parallel
// Encoding). Scores of its keys are divided by `temperature`; with L the logarithm of the sum of
// the weights of all its keys that a row sees, each of these weights is multiplied by
// exp((scale - 1) L), so that together they are exp(scale * L).
struct ParallelContext {
  // The plan's first ones, a chain of whole segments from a root, without rows of the step; 0: the
  // plan has no such context.
  std::int32_t spans = 0;
  float temperature = 1.0f;
  float scale = 1.0f;
};

// What begins with a cut. A chunk begins with a group, the rest of a path after its parallel
// context with a chunk.
enum class Opening : std::uint8_t { kCut, kGroup, kChunk, kRest };

// Never kRest, which is a matter of the path. With the cut that begins at `key` of the span.
constexpr Opening OpeningAt(const KvSpan& span, std::int32_t key) {
  const std::int32_t cut = span.chunk_phase + key / kCutKeys;
  if (cut % kCutsPerGroup != 0) return Opening::kCut;
  return cut % kCutsPerChunk == 0 ? Opening::kChunk : Opening::kGroup;
}

// One entry of a row's merge list.
struct MergeEntry {
  std::int32_t partial = 0;
  Opening opens = Opening::kCut;  // with the partial's first cut
};

struct AttentionPlan {
  std::vector<std::int32_t> pages;  // page ids of all spans
  std::vector<KvSpan> spans;
  ParallelContext context;
  std::vector<WorkItem> items;            // longest first
  std::vector<std::int32_t> merge_begin;  // [rows + 1] offsets into merges
  std::vector<MergeEntry> merges;         // of each row, in canonical order
  std::int32_t partials = 0;              // number of (row, item) partials
  // Workers of the backend that take items of many rows first; the others have those of few rows
  // from the start (joining.h). 0: no division.
  std::int32_t many_row_workers = 0;
  // Whether the keys of some item of few rows (fewer than GroupJoining::least_rows) are read by
  // another item as well, for other rows.
  bool reads_again = false;
};

}  // namespace banyan
