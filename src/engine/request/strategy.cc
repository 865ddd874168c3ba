#include "engine/request/strategy.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "kernels/probe_costs.h"

namespace banyan {
namespace {

constexpr std::array<std::pair<const char*, Strategy>, 7> kStrategies = {{
    {"flat", Strategy::kFlat},
    {"paged", Strategy::kPaged},
    {"stacked", Strategy::kStacked},
    {"tree", Strategy::kTree},
    {"auto", Strategy::kAuto},
    {"sequential", Strategy::kSequential},
    {"no-attention", Strategy::kNoAttention},
}};

// Query rows of an attention item that fill the matrix kernels without spilling their caches.
constexpr int kItemQueryRows = 128;

ItemSharing SharingOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kFlat:
    case Strategy::kPaged:
      return ItemSharing::kPerStream;
    case Strategy::kStacked:
      return ItemSharing::kStacked;
    case Strategy::kTree:
      return ItemSharing::kTree;
    case Strategy::kAuto:
    case Strategy::kSequential:
    case Strategy::kNoAttention:
      return ItemSharing::kAuto;
  }
  return ItemSharing::kAuto;
}

}  // namespace

Strategy ParseStrategy(const std::string& name) {
  std::string names;
  for (const auto& [text, strategy] : kStrategies) {
    if (name == text) return strategy;
    names += (names.empty() ? "" : ", ") + std::string(text);
  }
  Throw(ErrorKind::kUsage, "--strategy: expected one of {}; found '{}'", names, name);
}

const char* StrategyName(Strategy strategy) {
  for (const auto& [text, value] : kStrategies) {
    if (value == strategy) return text;
  }
  return "?";
}

void StackNumbers::Number(RequestTree& request) {
  for (size_t i = 0; i < request.streams.size(); ++i) {
    RequestStream& stream = request.streams[i];
    if (stream.panel >= 0) {
      stream.stack = ++stack_;
      contexts_ = most_contexts_;
      last_context_ = {};
      continue;
    }
    if (i > 0 && stream.skeleton >= 0 && stream.skeleton == request.streams[i - 1].skeleton) {
      stream.stack = stack_;
      continue;
    }
    const std::int32_t context = request.segments[static_cast<size_t>(stream.leaf)].parent;
    const std::pair here(request.id, context);
    if (context < 0 || here != last_context_) {
      ++contexts_;
      questions_ = 0;
    }
    ++questions_;
    if (contexts_ > most_contexts_ || (most_questions_ > 0 && questions_ > most_questions_)) {
      ++stack_;
      contexts_ = 1;
      questions_ = 1;
    }
    last_context_ = here;
    stream.stack = stack_;
  }
}

void RefuseForStates(const ModelConfig& config, const EngineOptions& options) {
  if (!config.states.any() || options.strategy != Strategy::kStacked) return;
  Throw(ErrorKind::kUnsupported,
        "strategy stacked: layers of {} keep states, and several contexts stacked by masks need "
        "attention in every layer; the strategies flat, paged, tree and auto work",
        config.family);
}

PlanOptions PlanOptionsFor(Strategy strategy, const AttentionShape& shape, const Kernels& kernels) {
  PlanOptions options;
  options.sharing = SharingOf(strategy);
  options.max_item_rows = std::max(1, kItemQueryRows * shape.kv_heads / shape.heads);
  options.min_items = (kernels.attention_tasks() + shape.kv_heads - 1) / shape.kv_heads;
  options.joining = kernels.JoiningFor(shape);
  options.costs = BuiltInCosts(kernels, shape);
  return options;
}

}  // namespace banyan
