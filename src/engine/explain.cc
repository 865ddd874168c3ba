// --explain: what of the submitted work is shared, what was chosen and why, what it should cost.
#include "plan/explain.h"

#include <algorithm>

#include "base/error.h"
#include "engine/core.h"
#include "engine/limit.h"

namespace banyan {
namespace {

// Tokens of one level of the declared paths: as if alone, and once each.
struct Level {
  std::int64_t alone = 0;
  std::int64_t stored = 0;
};

const char* WhyStrategy(Strategy strategy) {
  switch (strategy) {
    case Strategy::kFlat:
      return "every stream alone, its prompt stored and computed for itself (asked for)";
    case Strategy::kPaged:
      return "prompts stored once, read once per stream (asked for)";
    case Strategy::kStacked:
      return "rows of a stack meet all keys of the stack under a mask (asked for)";
    case Strategy::kTree:
      return "every shared segment read once for all streams under it (asked for)";
    case Strategy::kAuto:
      return "per node, read once for all streams under it or once per stream, whichever costs "
             "less";
    case Strategy::kSequential:
      return "all questions in one prompt, answers in turn: a comparison, not the same answers";
    case Strategy::kNoAttention:
      return "attention left out: a ceiling for throughput, wrong answers";
  }
  return "";
}

}  // namespace

std::string EngineCore::Explain() {
  // A forest of its own tells what sharing finds, without touching the one that runs.
  Forest forest(kCutKeys, std::vector<Digest>(model_->parts().variants.size()));
  std::vector<NodeSplit> splits;
  std::vector<Level> levels;
  std::int64_t tail_tokens = 0;
  std::int64_t alone = 0, stored = 0;
  const bool share = options_.strategy != Strategy::kFlat;
  for (const auto& [request, index] : line_.Fresh()) {
    const RequestStream& stream = request->streams[static_cast<size_t>(index)];
    std::int64_t answer_tokens = 0;
    for (std::int32_t a = stream.first_answer; a < stream.end_answer; ++a) {
      const AnswerRequest& wanted = request->answers[static_cast<size_t>(a)];
      answer_tokens +=
          wanted.forced.empty() ? wanted.max_new : static_cast<std::int64_t>(wanted.forced.size());
    }
    for (const std::int32_t leaf : request->LeavesOf(stream)) {
      const std::vector<std::int32_t> path = request->PathTo(leaf);
      NodeId node;
      if (levels.size() < path.size()) levels.resize(path.size());
      for (size_t depth = 0; depth < path.size(); ++depth) {
        const RequestSegment& segment = request->segments[static_cast<size_t>(path[depth])];
        const auto before = forest.TotalTokens();
        node = forest.AddSegment(
            node, {segment.tokens, segment.first_position, share, request->scope, request->variant},
            splits);
        levels[depth].alone += static_cast<std::int64_t>(segment.tokens.size());
        levels[depth].stored += forest.TotalTokens() - before;
      }
      tail_tokens += forest.TakenOver(node) + answer_tokens;
    }
  }
  std::string text = fmt::format("strategy  {}: {}\n", StrategyName(options_.strategy),
                                 WhyStrategy(options_.strategy));
  text += fmt::format("backend   {}, {}\n", model_->backend_name(), model_->precision());
  text += fmt::format("streams   {} waiting, at most {} at once, {} rows a step\n", line_.streams(),
                      max_streams_, batch_rows_);
  for (size_t depth = 0; depth < levels.size(); ++depth) {
    const Level& level = levels[depth];
    alone += level.alone;
    stored += level.stored;
    text += fmt::format("level {:<3} {} tokens as if alone, {} stored and computed ({:.1f}x)\n",
                        depth, level.alone, level.stored,
                        level.stored > 0
                            ? static_cast<double>(level.alone) / static_cast<double>(level.stored)
                            : 0.0);
  }
  text += fmt::format("prompts   {} tokens as if alone, {} computed, {} saved by sharing\n", alone,
                      stored, alone - stored);
  const std::int64_t page_bytes =
      kernels_.KvPageBytes({config_.layers, config_.kv_heads, config_.head_dim});
  text += fmt::format(
      "kv        {} tokens of prompts and at most {} of tails; the budget holds {} "
      "({} MiB)\n",
      stored, tail_tokens, static_cast<std::int64_t>(cache_.total_pages()) * kPageTokens,
      page_bytes * cache_.total_pages() >> 20);
  Admit();
  Decide();
  if (scheduler_.decision().empty()) return text;
  PlanStep();
  const BuiltStep& built = *built_;
  text += "first step\n";
  text += ExplainPlan(plan_, built.nodes, built.batch.positions, OptionsForPlan());
  const MachineRates& rates = model_->parts().Rates();
  if (rates.flops_per_second > 0.0) {
    text += ExplainCost(CountPlan(plan_, built.batch.positions),
                        static_cast<double>(built.batch.logit_rows.size()), limit_.sizes(), rates);
  }
  return text;
}

}  // namespace banyan
