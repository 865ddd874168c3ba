// Steps of one model over a tree of segments that is known beforehand: memory for all of it, no
// eviction, no prefix cache. For comparison with the engine, whose bits it has: kernels, plans and
// the division into segments are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "banyan/model.h"
#include "banyan/types.h"
#include "model/forward.h"
#include "plan/build.h"

namespace banyan {

// Tokens that follow in a segment, and how many of their rows' logits are wanted: of the last ones.
struct SegmentFeed {
  int segment = 0;
  std::span<const TokenId> tokens;  // one or more
  int logits = 0;
};

class PathRunner {
 public:
  // Steps of at most `most_rows` rows. REQUIRES: the model outlives this, and nothing else
  // computes with it meanwhile.
  PathRunner(Model::Parts& model, int most_rows);

  // A segment below another (-1: a root), right after it, with room for `most` tokens.
  int AddSegment(int above, std::int32_t most);
  // After the last AddSegment.
  void Allocate();

  // One step. Returns the logits that were asked for, in the order of the feeds, valid until the
  // next step. REQUIRES: feeds rise in Order, each segment once, those above are full; at most
  // most_rows rows.
  Tensor Step(std::span<const SegmentFeed> feeds);

  // Where a segment comes in a step: depth first.
  int Order(int segment) const { return order_[static_cast<size_t>(segment)]; }
  std::int32_t filled(int segment) const { return At(segment).filled; }
  // Forgets the last keys. REQUIRES: 0 <= filled <= filled(segment).
  void TakeBack(int segment, std::int32_t filled) { At(segment).filled = filled; }

  int most_rows() const { return most_rows_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t rows() const { return rows_; }

 private:
  struct Segment {
    int above = -1;
    std::int32_t first_position = 0, most = 0, filled = 0;
    std::vector<int> below;
    std::vector<std::int32_t> pages;
  };
  Segment& At(int segment) { return segments_[static_cast<size_t>(segment)]; }
  const Segment& At(int segment) const { return segments_[static_cast<size_t>(segment)]; }

  Model::Parts& model_;
  const int most_rows_;
  ForwardPass forward_;
  PlanOptions plan_options_;
  std::shared_ptr<KvMemory> kv_;
  std::vector<Segment> segments_;
  std::vector<int> order_, by_order_;
  std::int32_t pages_ = 0;
  std::int64_t steps_ = 0, rows_ = 0;
};

}  // namespace banyan
