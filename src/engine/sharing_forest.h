// Predicts what prompts will share: finds it as the engine does, but computes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "base/strong_int.h"
#include "engine/request/strategy.h"
#include "engine/request/stream.h"
#include "tree/forest.h"

namespace banyan {

class SharingForest {
 public:
  // `most_tokens`: what it remembers, where a node counts as kTokensOfNode more. Beyond that the
  // oldest leaves go, as a cache's do.
  // `piece_tokens` as of Forest; in pieces nothing is copied.
  explicit SharingForest(std::size_t variants = 1,
                         std::int64_t most_tokens = std::numeric_limits<std::int64_t>::max(),
                         int piece_tokens = 0);

  struct Found {
    NodeId node;              // of the segment's last token
    std::int64_t stored = 0;  // tokens that were not there
    std::int64_t copied = 0;  // of them, whose keys another node has (PrefixCopies)

    std::int64_t computed() const { return stored - copied; }
  };
  // The segment below `parent`, which was found since the last Forget.
  Found Add(NodeId parent, const Forest::Segment& segment);
  // Between two requests: makes room.
  void Forget();

  std::int32_t TakenOver(NodeId leaf) const { return forest_.TakenOver(leaf); }

 private:
  // What a node takes besides its tokens: its entries in the forest's tables and in `added_`.
  static constexpr std::int64_t kTokensOfNode = 96;
  bool Full() const {
    return forest_.TotalTokens() + kTokensOfNode * static_cast<std::int64_t>(added_.size()) >
           most_tokens_;
  }

  Forest forest_;
  const std::int64_t most_tokens_;
  const bool copies_;
  std::deque<NodeMemory> added_;  // oldest first
  std::vector<NodeSplit> splits_;
};

// Tokens of one level of the declared paths: without sharing, and with it.
struct SharedLevel {
  std::int64_t alone = 0;
  std::int64_t stored = 0;
  std::int64_t copied = 0;  // of those stored; the others are computed

  std::int64_t computed() const { return stored - copied; }
};

// What waiting streams have in common.
struct Sharing {
  std::vector<SharedLevel> levels;
  SharedLevel all;
  std::int64_t tail_tokens = 0;  // at most
  std::int64_t states = 0;       // slots of all at once; 0: layers keep none
};

// What the streams that have not run yet will share, found in a forest of its own: the one that
// runs is not touched.
Sharing FindSharing(const WaitingQueue& waiting, const Model::Parts& model,
                    const StorageRules& rules);
// The lines of --explain.
std::string DescribeSharing(const Sharing& sharing);

}  // namespace banyan
