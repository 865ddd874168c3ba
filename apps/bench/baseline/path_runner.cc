// Memory, plans and steps of a fixed tree of segments.
#include "baseline/path_runner.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "engine/request/strategy.h"
#include "load/model_parts.h"

namespace banyan {

PathRunner::PathRunner(Model::Parts& model, int most_rows)
    : model_(model),
      most_rows_(most_rows),
      forward_(model.config, model.weights, *model.kernels, most_rows, most_rows) {
  const ModelConfig& config = model.config;
  plan_options_ = PlanOptionsFor(Strategy::kAuto, {config.heads, config.kv_heads, config.head_dim},
                                 *model.kernels);
}

int PathRunner::AddSegment(int above, std::int32_t most) {
  const int number = static_cast<int>(segments_.size());
  Segment segment;
  segment.above = above;
  segment.most = most;
  if (above >= 0) {
    segment.first_position = At(above).first_position + At(above).most;
    At(above).below.push_back(number);
  }
  segment.pages.resize(static_cast<size_t>(PagesFor(most)));
  std::iota(segment.pages.begin(), segment.pages.end(), pages_);
  pages_ += static_cast<std::int32_t>(segment.pages.size());
  segments_.push_back(std::move(segment));
  return number;
}

void PathRunner::Allocate() {
  const ModelConfig& config = model_.config;
  kv_ = model_.kernels->NewKvMemory(KvShapeOf(config), pages_);
  order_.resize(segments_.size());
  std::vector<int> waiting;  // the next one last
  for (int i = static_cast<int>(segments_.size()) - 1; i >= 0; --i) {
    if (At(i).above < 0) waiting.push_back(i);
  }
  while (!waiting.empty()) {
    const int segment = waiting.back();
    waiting.pop_back();
    order_[static_cast<size_t>(segment)] = static_cast<int>(by_order_.size());
    by_order_.push_back(segment);
    waiting.insert(waiting.end(), At(segment).below.rbegin(), At(segment).below.rend());
  }
}

Tensor PathRunner::Step(std::span<const SegmentFeed> feeds) {
  Batch batch;
  std::vector<const SegmentFeed*> feed_of(segments_.size());
  std::vector<bool> on_path(segments_.size());
  for (const SegmentFeed& feed : feeds) {
    feed_of[static_cast<size_t>(Order(feed.segment))] = &feed;
    for (int i = feed.segment; i >= 0; i = At(i).above)
      on_path[static_cast<size_t>(Order(i))] = true;
  }
  std::vector<PlanNode> nodes;
  std::vector<std::int32_t> node_of(segments_.size(), -1);
  for (size_t at = 0; at < by_order_.size(); ++at) {
    if (!on_path[at]) continue;
    const int number = by_order_[at];
    Segment& segment = At(number);
    const std::int32_t above = segment.above < 0 ? -1 : node_of[static_cast<size_t>(segment.above)];
    PlanNode node;
    node.parent = above;
    node.row_begin = batch.rows();
    if (const SegmentFeed* feed = feed_of[at]) {
      const auto rows = static_cast<std::int32_t>(feed->tokens.size());
      BANYAN_CHECK(segment.filled + rows <= segment.most);
      for (std::int32_t i = 0; i < rows; ++i) {
        const std::int32_t key = segment.filled + i;
        if (i >= rows - feed->logits) batch.logit_rows.push_back(batch.rows());
        batch.tokens.push_back(feed->tokens[static_cast<size_t>(i)]);
        batch.positions.push_back(segment.first_position + key);
        batch.slots.push_back(segment.pages[static_cast<size_t>(key / kPageTokens)] * kPageTokens +
                              key % kPageTokens);
      }
      segment.filled += rows;
    }
    node.row_end = batch.rows();
    node.length = segment.filled;
    node.first_position = segment.first_position;
    node.pages = std::span(segment.pages).first(static_cast<size_t>(PagesFor(segment.filled)));
    // An empty segment is no part of the path.
    node_of[static_cast<size_t>(number)] =
        segment.filled == 0 ? above : static_cast<std::int32_t>(nodes.size());
    if (segment.filled > 0) nodes.push_back(node);
  }
  ++steps_;
  rows_ += batch.rows();
  return forward_.Run(batch, BuildPlan(nodes, batch.positions, plan_options_), *kv_);
}

}  // namespace banyan
