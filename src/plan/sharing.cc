#include "plan/sharing.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "plan/batch.h"

namespace banyan {
namespace {

void CheckNode(std::span<const PlanNode> nodes, const PlanNode& node) {
  BANYAN_CHECK(node.length >= 0 && node.chunk_phase >= 0);
  const std::size_t length = static_cast<std::size_t>(node.length);
  BANYAN_CHECK(node.pages.size() == (length + kPageTokens - 1) / kPageTokens);
  if (!ContinuesParent(node)) return;
  BANYAN_CHECK(node.parent >= 0);
  const PlanNode& parent = nodes[node.parent];
  BANYAN_CHECK(parent.length % kCutKeys == 0);
  const std::int32_t phase = parent.chunk_phase + parent.length / kCutKeys;
  BANYAN_CHECK((phase - node.chunk_phase) % kCutsPerChunk == 0);
  BANYAN_CHECK(node.first_position >= parent.first_position + parent.length);
}

constexpr std::int64_t PartsOf(std::int64_t keys, std::int64_t part) {
  return (keys + part - 1) / part;
}

// Which groups become cuts, as BuildPlan splits them where workers would have too little to do.
struct Splitting {
  std::int64_t most_work = std::numeric_limits<std::int64_t>::max();  // of an item that stays whole
};

// Items and their rows x keys, before any is split.
struct ItemTotals {
  const ReadingForm& form;
  std::int64_t items = 0, work = 0;
  ReadingCounts groups = {}, cuts = {};

  void Add(std::int64_t rows, std::int64_t keys) {
    const std::int64_t parts = PartsOf(keys, kGroupKeys);
    groups.Add(form, rows, keys, parts, std::min<std::int64_t>(keys, kGroupKeys));
    cuts.Add(form, rows, keys, PartsOf(keys, kCutKeys), std::min<std::int64_t>(keys, kCutKeys));
    items += parts;
    work += rows * keys;
  }
  Splitting split(const StepNodes& step, const PlanOptions& options) {
    if (options.min_items <= 1) return {};
    if (items >= options.min_items) return {3 * work / (2 * options.min_items)};
    groups.rows = cuts.rows = static_cast<std::int64_t>(step.positions.size());
    return FasterInCuts(options.costs, groups, cuts) ? Splitting{0} : Splitting{};
  }
};

// The same items as they are taken. Where exactly the cuts lie hardly changes the time.
struct SplitItems {
  const ReadingForm& form;
  Splitting splitting;
  ReadingCounts counts = {};

  void Add(std::int64_t rows, std::int64_t keys) {
    const std::int64_t whole = keys / kGroupKeys, rest = keys % kGroupKeys;
    AddItems(rows, kGroupKeys, whole);
    if (rest > 0) AddItems(rows, rest, 1);
  }
  void AddItems(std::int64_t rows, std::int64_t keys, std::int64_t items) {
    if (items == 0) return;
    const bool split = rows * keys > splitting.most_work;
    const std::int64_t part = split ? std::min<std::int64_t>(keys, kCutKeys) : keys;
    counts.Add(form, rows, items * keys, items * PartsOf(keys, part), part);
  }
};

// `rows` that read the node together, in blocks as BuildPlan makes them.
template <typename Items>
void AddReading(const StepNodes& step, std::size_t node, RowRange rows, const PlanOptions& options,
                Items& items) {
  for (std::int32_t begin = rows.begin; begin < rows.end;) {
    const RowRange block{begin, begin + std::min(options.max_item_rows, rows.end - begin)};
    items.Add(block.size(), VisibleKeys(step.nodes[node], step.positions, block));
    begin = block.end;
  }
}

template <typename Items>
void AddTogether(const StepNodes& step, std::size_t node, const PlanOptions& options,
                 Items& items) {
  AddReading(step, node, step.readers.nodes[node].rows, options, items);
}

template <typename Items>
void AddApart(const StepNodes& step, std::size_t node, const PlanOptions& options, Items& items) {
  const NodeReaders& reader = step.readers.nodes[node];
  for (std::int32_t run = reader.run_begin; run < reader.run_end; ++run) {
    AddReading(step, node, step.readers.runs[static_cast<std::size_t>(run)], options, items);
  }
}

bool HasSeveralReaders(const NodeReaders& reader) { return reader.run_end - reader.run_begin > 1; }

// Of one worker that does everything.
double WorkOf(const AttentionCosts& costs, const ReadingCounts& counts) {
  const double heads = costs.form.kv_heads;
  return heads * (static_cast<double>(counts.few_units) * costs[CostTerm::kFewUnit] +
                  static_cast<double>(counts.few_keys) * costs[CostTerm::kFewKey] +
                  static_cast<double>(counts.many_units) * costs[CostTerm::kManyUnit] +
                  static_cast<double>(counts.many_keys) * costs[CostTerm::kManyKey] +
                  static_cast<double>(counts.many_pairs) * costs[CostTerm::kManyPair]) +
         static_cast<double>(counts.partials) * costs[CostTerm::kPartial];
}

bool ApartIsLess(const StepNodes& step, std::size_t node, const PlanOptions& options) {
  const NodeSeconds seconds = SecondsOfNode(step, node, options);
  return seconds.apart < seconds.together;
}

}  // namespace

bool ContinuesParent(const PlanNode& node) {
  return node.continues_parent || node.chunk_phase % kCutsPerChunk != 0;
}

void FindReaders(std::span<const PlanNode> nodes, std::int32_t rows, StepReaders& readers) {
  const std::int32_t count = static_cast<std::int32_t>(nodes.size());
  readers.nodes.assign(nodes.size(), {});
  readers.runs.clear();
  std::int32_t open = -1;  // the last node that may have more children; above it, its ancestors
  std::int32_t next_row = 0;
  for (std::int32_t i = 0; i < count; ++i) {
    const PlanNode& node = nodes[i];
    while (open >= 0 && open != node.parent) open = nodes[open].parent;
    BANYAN_CHECK(open == node.parent);  // else not depth-first
    open = i;
    CheckNode(nodes, node);

    NodeReaders& reader = readers.nodes[i];
    if (node.parent >= 0) {
      reader.level = readers.nodes[node.parent].level + (ContinuesParent(node) ? 0 : 1);
    }
    reader.rows.begin = next_row;
    reader.run_begin = static_cast<std::int32_t>(readers.runs.size());
    if (node.row_begin != node.row_end) {
      BANYAN_CHECK(node.row_begin == next_row && node.row_end > next_row && node.row_end <= rows);
      readers.runs.push_back({node.row_begin, node.row_end});
      next_row = node.row_end;
    }
    reader.rows.end = next_row;
    reader.run_end = static_cast<std::int32_t>(readers.runs.size());
  }
  BANYAN_CHECK(next_row == rows);
  for (std::int32_t i = count - 1; i >= 0; --i) {  // descendants come later and end later
    if (nodes[i].parent < 0) continue;
    NodeReaders& parent = readers.nodes[nodes[i].parent];
    parent.rows.end = std::max(parent.rows.end, readers.nodes[i].rows.end);
    parent.run_end = std::max(parent.run_end, readers.nodes[i].run_end);
  }
}

void ChooseSharing(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
                   const StepReaders& readers, const PlanOptions& options,
                   std::vector<ItemSharing>& chosen) {
  chosen.assign(nodes.size(), options.sharing);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeReaders& reader = readers.nodes[i];
    switch (options.sharing) {
      case ItemSharing::kPerStream:
        break;
      case ItemSharing::kTree:
        if (options.share_levels > 0 && reader.level >= options.share_levels) {
          chosen[i] = ItemSharing::kPerStream;
        }
        break;
      case ItemSharing::kStacked:
        if (nodes[i].stack < 0) chosen[i] = ItemSharing::kTree;
        break;
      case ItemSharing::kAuto:
        chosen[i] = ItemSharing::kTree;
        break;
    }
  }
  if (options.sharing != ItemSharing::kAuto) return;
  ChooseReading({nodes, positions, readers}, options, chosen);
}

std::vector<RowRange> FindStackRows(std::span<const PlanNode> nodes, const StepReaders& readers) {
  std::vector<std::int32_t> order;  // nodes with a stack, those of one stack together
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].stack >= 0) order.push_back(static_cast<std::int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return nodes[a].stack < nodes[b].stack; });
  std::vector<RowRange> stack_rows(nodes.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    RowRange rows = readers.nodes[order[begin]].rows;
    while (end < order.size() && nodes[order[end]].stack == nodes[order[begin]].stack) {
      const RowRange& more = readers.nodes[order[end++]].rows;
      if (more.size() == 0) continue;
      rows = rows.size() == 0
                 ? more
                 : RowRange{std::min(rows.begin, more.begin), std::max(rows.end, more.end)};
    }
    for (std::size_t i = begin; i < end; ++i) stack_rows[order[i]] = rows;
  }
  return stack_rows;
}

std::int32_t VisibleKeys(const PlanNode& node, std::span<const std::int32_t> positions,
                         RowRange rows) {
  std::int32_t farthest = -1;
  for (std::int32_t row = rows.begin; row < rows.end; ++row) {
    farthest = std::max(farthest, positions[row]);
  }
  const std::int64_t keys = std::int64_t{farthest} - node.first_position + 1;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(keys, 0, node.length));
}

ReadingSeconds SecondsOfStep(const StepNodes& step, const PlanOptions& options) {
  const ReadingForm& form = options.costs.form;
  ItemTotals all_together{form}, all_apart{form};
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    AddTogether(step, i, options, all_together);
    AddApart(step, i, options, all_apart);
  }
  SplitItems together{form, all_together.split(step, options)};
  SplitItems apart{form, all_apart.split(step, options)};
  ReadingCounts mixed;
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    SplitItems with_others{form, together.splitting}, alone{form, apart.splitting};
    AddTogether(step, i, options, with_others);
    AddApart(step, i, options, alone);
    together.counts += with_others.counts;
    apart.counts += alone.counts;
    const bool reads_apart =
        HasSeveralReaders(step.readers.nodes[i]) && ApartIsLess(step, i, options);
    mixed += reads_apart ? alone.counts : with_others.counts;
  }
  const auto seconds = [&](ReadingCounts counts) {
    counts.rows = static_cast<std::int64_t>(step.positions.size());
    return SecondsOf(options.costs, counts);
  };
  return {seconds(together.counts), seconds(apart.counts), seconds(mixed)};
}

NodeSeconds SecondsOfNode(const StepNodes& step, std::size_t node, const PlanOptions& options) {
  SplitItems together{options.costs.form, {}}, apart{options.costs.form, {}};
  AddTogether(step, node, options, together);
  AddApart(step, node, options, apart);
  return {WorkOf(options.costs, together.counts), WorkOf(options.costs, apart.counts)};
}

void ChooseReading(const StepNodes& step, const PlanOptions& options,
                   std::vector<ItemSharing>& chosen) {
  const std::vector<NodeReaders>& readers = step.readers.nodes;
  if (options.costs.seconds == CostTerms{}) return;
  if (std::none_of(readers.begin(), readers.end(), HasSeveralReaders)) return;
  const ReadingSeconds seconds = SecondsOfStep(step, options);
  if (std::min(seconds.apart, seconds.mixed) >= (1.0 - kClearGain) * seconds.together) return;
  for (std::size_t i = 0; i < step.nodes.size(); ++i) {
    if (!HasSeveralReaders(readers[i])) continue;
    if (seconds.apart <= seconds.mixed || ApartIsLess(step, i, options)) {
      chosen[i] = ItemSharing::kPerStream;
    }
  }
}

}  // namespace banyan
