// CheckPlan: judges a plan by the definition of its parts, not by the way BuildPlan makes it.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "plan/batch.h"
#include "plan/build.h"
#include "plan/sharing.h"

namespace banyan {
namespace {

class Checker {
 public:
  Checker(const AttentionPlan& plan, std::span<const PlanNode> nodes,
          std::span<const std::int32_t> positions)
      : plan_(plan), nodes_(nodes), positions_(positions) {
    FindReaders(nodes, static_cast<std::int32_t>(positions.size()), readers_);
  }

  void Check() {
    CheckSpans();
    CheckContext();
    CheckItems();
    CheckMergeOffsets();
    for (const PlanNode& node : nodes_) CheckOwnRows(node);
  }

 private:
  void CheckSpans() const {
    BANYAN_CHECK(plan_.spans.size() == nodes_.size());
    std::size_t page = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const KvSpan& span = plan_.spans[i];
      const PlanNode& node = nodes_[i];
      BANYAN_CHECK(span.length == node.length);
      BANYAN_CHECK(span.first_position == node.first_position);
      BANYAN_CHECK(span.chunk_phase == node.chunk_phase % kCutsPerChunk);
      BANYAN_CHECK(static_cast<std::size_t>(span.first_page) == page);
      BANYAN_CHECK(plan_.pages.size() - page >= node.pages.size());
      BANYAN_CHECK(std::equal(node.pages.begin(), node.pages.end(), plan_.pages.begin() + page));
      page += node.pages.size();
    }
    BANYAN_CHECK(plan_.pages.size() == page);
  }

  // A chain of whole segments without rows of its own.
  void CheckContext() const {
    const ParallelContext& context = plan_.context;
    BANYAN_CHECK(context.spans >= 0 && static_cast<std::size_t>(context.spans) <= nodes_.size());
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(nodes_.size()); ++i) {
      const PlanNode& node = nodes_[i];
      if (i < context.spans) {
        BANYAN_CHECK(node.parent == i - 1 && node.row_begin == node.row_end);
      } else if (node.parent >= 0 && node.parent < context.spans) {
        BANYAN_CHECK(node.parent == context.spans - 1 && !ContinuesParent(node));
      }
    }
  }

  void CheckItems() {
    BANYAN_CHECK(plan_.partials >= 0);
    item_of_partial_.assign(plan_.partials, -1);
    std::int64_t partials = 0, last_work = 0;
    for (std::size_t i = 0; i < plan_.items.size(); ++i) {
      const WorkItem& item = plan_.items[i];
      CheckItem(item);
      const std::int64_t work =
          std::int64_t{item.row_end - item.row_begin} * (item.key_end - item.key_begin);
      BANYAN_CHECK(i == 0 || work <= last_work);  // longest first
      last_work = work;
      const std::int32_t count = item.reader_end - item.reader_begin;
      BANYAN_CHECK(item.first_partial >= 0 && item.first_partial <= plan_.partials - count);
      for (std::int32_t partial = item.first_partial; partial < item.first_partial + count;
           ++partial) {
        BANYAN_CHECK(item_of_partial_[partial] == -1);  // one writer
        item_of_partial_[partial] = static_cast<std::int32_t>(i);
      }
      partials += count;
    }
    BANYAN_CHECK(partials == plan_.partials);
  }

  void CheckItem(const WorkItem& item) const {
    const std::int32_t rows = static_cast<std::int32_t>(positions_.size());
    BANYAN_CHECK(0 <= item.row_begin && item.row_begin < item.row_end && item.row_end <= rows);
    BANYAN_CHECK(item.row_begin <= item.reader_begin && item.reader_begin <= item.reader_end &&
                 item.reader_end <= item.row_end);
    BANYAN_CHECK(item.span >= 0 && static_cast<std::size_t>(item.span) < nodes_.size());
    const RowRange& readers = readers_.nodes[item.span].rows;
    BANYAN_CHECK(item.reader_begin == item.reader_end ||
                 (readers.begin <= item.reader_begin && item.reader_end <= readers.end));

    const KvSpan& span = plan_.spans[item.span];
    BANYAN_CHECK(0 <= item.key_begin && item.key_begin < item.key_end &&
                 item.key_end <= span.length);
    BANYAN_CHECK(item.key_begin % kCutKeys == 0);
    const std::int32_t keys = item.key_end - item.key_begin;
    BANYAN_CHECK(keys <= kCutKeys ||
                 (keys <= kGroupKeys && CutOfGroup(span, item.key_begin) == 0) ||  // a run of cuts
                 (keys <= kChunkKeys && CutOfChunk(span, item.key_begin) == 0));   // of groups
  }

  // Which cut of its group or chunk begins at `key`.
  static std::int32_t CutOfGroup(const KvSpan& span, std::int32_t key) {
    return CutOfChunk(span, key) % kCutsPerGroup;
  }
  static std::int32_t CutOfChunk(const KvSpan& span, std::int32_t key) {
    return (span.chunk_phase + key / kCutKeys) % kCutsPerChunk;
  }

  void CheckMergeOffsets() {
    BANYAN_CHECK(plan_.merge_begin.size() == positions_.size() + 1);
    BANYAN_CHECK(plan_.merge_begin.front() == 0);
    BANYAN_CHECK(std::is_sorted(plan_.merge_begin.begin(), plan_.merge_begin.end()));
    BANYAN_CHECK(static_cast<std::size_t>(plan_.merge_begin.back()) == plan_.merges.size());
    BANYAN_CHECK(plan_.merges.size() == static_cast<std::size_t>(plan_.partials));
  }

  void CheckOwnRows(const PlanNode& node) {
    if (node.row_begin == node.row_end) return;
    path_.clear();
    for (std::int32_t i = static_cast<std::int32_t>(&node - nodes_.data()); i >= 0;
         i = nodes_[i].parent) {
      path_.push_back(i);
    }
    std::reverse(path_.begin(), path_.end());
    for (std::int32_t row = node.row_begin; row < node.row_end; ++row) {
      BANYAN_CHECK(row == node.row_begin || positions_[row - 1] < positions_[row]);
      CheckRow(row);
    }
  }

  // The merge list goes through the path's keys from left to right, leaving none out that the row
  // sees; so no pair is met twice either, and since every partial has one place in one list, the
  // lists use every partial. What follows an item of several groups must open one: else the item's
  // last group would go on.
  void CheckRow(std::int32_t row) const {
    std::int32_t next = plan_.merge_begin[row];
    const std::int32_t end = plan_.merge_begin[row + 1];
    bool after_several_groups = false;
    for (std::int32_t node : path_) {
      const KvSpan& span = plan_.spans[node];
      const std::int64_t visible = std::clamp<std::int64_t>(
          std::int64_t{positions_[row]} - span.first_position + 1, 0, span.length);
      std::int32_t key = 0;
      for (; next < end; ++next) {
        const MergeEntry& entry = plan_.merges[next];
        BANYAN_CHECK(entry.partial >= 0 && entry.partial < plan_.partials);
        const WorkItem& item = plan_.items[item_of_partial_[entry.partial]];
        BANYAN_CHECK(item.reader_begin + (entry.partial - item.first_partial) == row);
        if (item.span != node) break;
        BANYAN_CHECK(item.key_begin == key);
        BANYAN_CHECK((entry.opens == Opening::kCut) == (CutOfGroup(span, key) != 0));
        BANYAN_CHECK((entry.opens >= Opening::kChunk) == (CutOfChunk(span, key) == 0));
        BANYAN_CHECK((entry.opens == Opening::kRest) ==
                     (key == 0 && node >= plan_.context.spans && nodes_[node].parent >= 0 &&
                      nodes_[node].parent < plan_.context.spans));
        BANYAN_CHECK(!after_several_groups || entry.opens != Opening::kCut);
        after_several_groups = item.key_end - item.key_begin > kGroupKeys;
        BANYAN_CHECK(item.key_end % kCutKeys == 0 || item.key_end >= visible);  // whole cuts
        key = item.key_end;
      }
      BANYAN_CHECK(key >= visible);  // every visible key
    }
    BANYAN_CHECK(next == end);  // nothing off the path
  }

  const AttentionPlan& plan_;
  const std::span<const PlanNode> nodes_;
  const std::span<const std::int32_t> positions_;
  StepReaders readers_;
  std::vector<std::int32_t> item_of_partial_;  // [partials]
  std::vector<std::int32_t> path_;             // of the rows being checked, root first
};

}  // namespace

void CheckPlan(const AttentionPlan& plan, std::span<const PlanNode> nodes,
               std::span<const std::int32_t> positions) {
  Checker(plan, nodes, positions).Check();
}

}  // namespace banyan
