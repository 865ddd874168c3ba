// --explain: what of the submitted work is shared, what was chosen, and its predicted cost.
#include "plan/explain.h"

#include <algorithm>

#include "base/error.h"
#include "engine/core.h"
#include "engine/limit.h"
#include "engine/sharing_forest.h"
#include "engine/storage_rules.h"

namespace banyan {
namespace {

// Tokens of one level of the declared paths: as if alone, and once each.
struct Level {
  std::int64_t alone = 0;
  std::int64_t stored = 0;
  std::int64_t copied = 0;  // of those stored; the others are computed

  std::int64_t computed() const { return stored - copied; }
};

// What waiting streams have in common.
struct Sharing {
  std::vector<Level> levels;
  Level all;
  std::int64_t tail_tokens = 0;  // at most
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
      return "per node, read once for all streams under it, or once per stream where that is "
             "predicted to be clearly faster";
    case Strategy::kSequential:
      return "all questions in one prompt, answers in turn: a comparison, not the same answers";
    case Strategy::kNoAttention:
      return "attention left out: a ceiling for throughput, wrong answers";
  }
  return "";
}

std::int64_t MostTokens(const RequestTree& request, const RequestStream& stream) {
  std::int64_t tokens = 0;
  for (std::int32_t a = stream.first_answer; a < stream.end_answer; ++a) {
    const AnswerRequest& wanted = request.answers[static_cast<size_t>(a)];
    tokens +=
        wanted.forced.empty() ? wanted.max_new : static_cast<std::int64_t>(wanted.forced.size());
  }
  return tokens;
}

// A forest of its own tells what sharing finds, without touching the one that runs.
Sharing FindSharing(const WaitingLine& line, size_t variants, const StorageRules& rules) {
  Sharing found;
  SharingForest forest(variants);
  for (const auto& [request, index] : line.Fresh()) {
    const RequestStream& stream = request->streams[static_cast<size_t>(index)];
    const std::int64_t answer_tokens = MostTokens(*request, stream);
    for (const std::int32_t leaf : request->LeavesOf(stream)) {
      const std::vector<std::int32_t> path = request->PathTo(leaf);
      NodeId node;
      if (found.levels.size() < path.size()) found.levels.resize(path.size());
      for (size_t depth = 0; depth < path.size(); ++depth) {
        const RequestSegment& segment = request->segments[static_cast<size_t>(path[depth])];
        const SharingForest::Found added =
            forest.Add(node, {segment.tokens, segment.first_position, rules.Shares(depth),
                              rules.ScopeOf(*request, stream), request->variant});
        node = added.node;
        found.levels[depth].alone += static_cast<std::int64_t>(segment.tokens.size());
        found.levels[depth].stored += added.stored;
        found.levels[depth].copied += added.copied;
      }
      found.tail_tokens += forest.TakenOver(node) + answer_tokens;
    }
  }
  for (const Level& level : found.levels) {
    found.all.alone += level.alone;
    found.all.stored += level.stored;
    found.all.copied += level.copied;
  }
  return found;
}

std::string Describe(const Sharing& sharing) {
  std::string text;
  for (size_t depth = 0; depth < sharing.levels.size(); ++depth) {
    const Level& level = sharing.levels[depth];
    const std::string kept = level.copied == 0
                                 ? fmt::format("{} stored and computed", level.stored)
                                 : fmt::format("{} stored, {} of them computed and {} copied",
                                               level.stored, level.computed(), level.copied);
    text +=
        fmt::format("level {:<3} {} tokens as if alone, {} ({:.1f}x)\n", depth, level.alone, kept,
                    static_cast<double>(level.alone) /
                        static_cast<double>(std::max<std::int64_t>(1, level.computed())));
  }
  const Level& all = sharing.all;
  return text + fmt::format("prompts   {} tokens as if alone, {} computed, {} saved by sharing\n",
                            all.alone, all.computed(), all.alone - all.computed());
}

}  // namespace

std::string EngineCore::Explain() {
  const Model::Parts& model = model_->parts();
  const Strategy strategy = options_.strategy;
  std::string text =
      fmt::format("strategy  {}: {}\n", StrategyName(strategy), WhyStrategy(strategy));
  text += fmt::format("backend   {}, {}\n", model_->backend_name(), model_->precision());
  text += fmt::format("costs     {}\n", model_->parts().Costs(false).source);
  text += fmt::format("streams   {} waiting, at most {} at once, {} rows a step\n", waiting(),
                      max_streams(), row_limit_.most());
  const Sharing sharing =
      FindSharing(admission_.line(), model.variants.size(), StorageRules(options_));
  text += Describe(sharing);
  const std::int64_t pages = streams_.cache().total_pages();
  const std::int64_t page_bytes = model.kernels->KvPageBytes(
      {model.config.layers, model.config.kv_heads, model.config.head_dim});
  text += fmt::format(
      "kv        {} tokens of prompts and at most {} of tails; the budget holds {} "
      "({} MiB)\n",
      sharing.all.stored, sharing.tail_tokens, pages * kPageTokens, page_bytes * pages >> 20);
  admission_.Admit();
  streams_.CopyBeginnings();
  if (composer_.Decide(row_limit_.rows()).empty()) return text;
  plan_.Build(composer_.decision());
  const Batch& batch = plan_.batch();
  text += "first step\n";
  text += ExplainPlan(plan_.attention(), plan_.nodes(), batch.positions, plan_.options());
  const MachineRates& rates = model_->parts().Rates();
  if (rates.flops_per_second > 0.0) {
    text +=
        ExplainCost(CountPlan(plan_.attention(), batch.positions),
                    static_cast<double>(batch.logit_rows.size()), launcher_.limit().sizes(), rates);
  }
  return text;
}

}  // namespace banyan
