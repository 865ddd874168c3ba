// Synthetic jobs: a regular forest of random tokens, with an answer of fixed length at every leaf.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/engine.h"

namespace banyan::app {

struct Work {
  std::string name;
  std::vector<int> branches;  // of every node of the level above; of the first level: the roots
  std::vector<int> lengths;   // tokens of a node of each level
  int max_new = 16;           // tokens of an answer
  std::uint64_t seed = 1;

  int streams() const;
  std::int64_t prompt_tokens() const;  // of one stream
  std::string Text() const;            // as ParseWork reads it: "1 x 8 x 64 | 32, 2048, 256 tokens"
};

// "8 documents x 64 questions | 32, 2048, 256 tokens": how many below each node, then how long the
// nodes of each level are. Words are for the reader. With one length more than counts the first is
// shared by all; with as many the first level has no common root. The sign × works as well as x.
// Throws kUsage.
Work ParseWork(const std::string& text);

// The first `streams` leaves and what is above them; answers are tagged 0, 1, 2, … from left to
// right. A part of the work has the same tokens as the whole.
std::vector<PromptSegment> MakeRequests(const Work& work, int streams, int vocab_size);

}  // namespace banyan::app
