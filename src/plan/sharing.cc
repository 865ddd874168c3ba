#include "plan/sharing.h"

#include <algorithm>

#include "base/error.h"
#include "plan/batch.h"
#include "plan/reading_choice.h"

namespace banyan {

bool ContinuesParent(const PlanNode& node) {
  return node.continues_parent || node.stretch_phase % kCutsPerStretch != 0;
}

namespace {

void CheckNode(std::span<const PlanNode> nodes, const PlanNode& node) {
  BANYAN_CHECK(node.length >= 0 && node.stretch_phase >= 0);
  const std::size_t length = static_cast<std::size_t>(node.length);
  BANYAN_CHECK(node.pages.size() == (length + kPageTokens - 1) / kPageTokens);
  if (!ContinuesParent(node)) return;
  BANYAN_CHECK(node.parent >= 0);
  const PlanNode& parent = nodes[node.parent];
  BANYAN_CHECK(parent.length % kCutKeys == 0);
  const std::int32_t phase = parent.stretch_phase + parent.length / kCutKeys;
  BANYAN_CHECK((phase - node.stretch_phase) % kCutsPerStretch == 0);
  BANYAN_CHECK(node.first_position >= parent.first_position + parent.length);
}

}  // namespace

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

}  // namespace banyan
