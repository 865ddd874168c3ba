// Items are first made in canonical order (node by node, block by block of rows, left to right), so
// that handing each item's partials to its readers in that order fills every row's merge list in
// the order of its path; only then are they sorted by length.
#include "plan/build.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "plan/batch.h"
#include "plan/sharing.h"

namespace banyan {
namespace {

std::int64_t Work(const WorkItem& item) {
  return std::int64_t{item.row_end - item.row_begin} * (item.key_end - item.key_begin);
}

// Whether `node`, number `index` of the plan, is the first after the parallel context on its path.
bool FollowsContext(const ParallelContext& context, const PlanNode& node, std::int32_t index) {
  return index >= context.spans && node.parent >= 0 && node.parent < context.spans;
}

class Builder {
 public:
  Builder(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
          const PlanOptions& options, PlanScratch& scratch, AttentionPlan& plan)
      : nodes_(nodes), positions_(positions), options_(options), scratch_(scratch), plan_(plan) {}

  void Build() {
    BANYAN_CHECK(options_.max_item_rows >= 1);
    BANYAN_CHECK(positions_.size() <= std::numeric_limits<std::int32_t>::max());
    AddSpans();
    AddItems();
    SplitGroups();
    Join();
    AddMerges();
    SortItems();
  }

 private:
  void AddSpans() {
    plan_.pages.clear();
    plan_.spans.clear();
    plan_.context = options_.context;
    for (const PlanNode& node : nodes_) {
      plan_.spans.push_back({.first_page = static_cast<std::int32_t>(plan_.pages.size()),
                             .length = node.length,
                             .first_position = node.first_position,
                             .chunk_phase = node.chunk_phase % kCutsPerChunk});
      plan_.pages.insert(plan_.pages.end(), node.pages.begin(), node.pages.end());
    }
    BANYAN_CHECK(plan_.pages.size() <= std::numeric_limits<std::int32_t>::max());
  }

  void AddItems() {
    plan_.items.clear();
    plan_.reads_again = false;
    FindReaders(nodes_, static_cast<std::int32_t>(positions_.size()), scratch_.readers);
    const StepReaders& readers = scratch_.readers;
    ChooseSharing(nodes_, positions_, readers, options_, scratch_.sharing);
    const std::vector<ItemSharing>& sharing = scratch_.sharing;
    std::vector<RowRange> stack_rows;
    if (options_.sharing == ItemSharing::kStacked) stack_rows = FindStackRows(nodes_, readers);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(nodes_.size()); ++i) {
      const NodeReaders& reader = readers.nodes[i];
      if (nodes_[i].length == 0) continue;
      if (sharing[i] == ItemSharing::kStacked) {
        AddReading(i, stack_rows[i], reader.rows);
      } else if (sharing[i] == ItemSharing::kTree) {
        AddReading(i, reader.rows, reader.rows);
      } else {
        for (std::int32_t run = reader.run_begin; run < reader.run_end; ++run) {
          AddReading(i, readers.runs[run], readers.runs[run]);
          if (reader.run_end - reader.run_begin > 1) NoteReader(readers.runs[run]);
        }
      }
    }
  }

  // Items in which `rows` meet the keys of a node together.
  void AddReading(std::int32_t span, RowRange rows, RowRange readers) {
    for (std::int32_t begin = rows.begin; begin < rows.end;) {
      const std::int32_t end = begin + std::min(options_.max_item_rows, rows.end - begin);
      WorkItem item{.row_begin = begin,
                    .row_end = end,
                    .reader_begin = std::clamp(readers.begin, begin, end),
                    .reader_end = std::clamp(readers.end, begin, end),
                    .span = span};
      if (rows.end - rows.begin > options_.max_item_rows) NoteReader({begin, end});
      const std::int32_t keys = VisibleKeys(nodes_[span], positions_, {begin, end});
      for (std::int32_t key = 0; key < keys; key = item.key_end) {
        item.key_begin = key;
        item.key_end = key + std::min(keys - key, kCutKeys * CutsOfRun(span, key));
        AddItem(plan_.items, item);
      }
      begin = end;
    }
  }

  // Of keys that others read too.
  void NoteReader(RowRange rows) {
    if (rows.end - rows.begin < options_.joining.least_rows) plan_.reads_again = true;
  }

  // A whole group where one starts; before that, in a span that continues one, single cuts.
  std::int32_t CutsOfRun(std::int32_t span, std::int32_t key) const {
    return OpeningAt(plan_.spans[span], key) == Opening::kCut ? 1 : kCutsPerGroup;
  }

  // Leaves out the first rows while they see nothing of the item.
  void AddItem(std::vector<WorkItem>& items, WorkItem item) const {
    const std::int64_t first = std::int64_t{nodes_[item.span].first_position} + item.key_begin;
    const bool all_read = item.reader_begin == item.row_begin && item.reader_end == item.row_end;
    while (item.reader_begin < item.reader_end && positions_[item.reader_begin] < first) {
      ++item.reader_begin;
    }
    if (all_read) item.row_begin = item.reader_begin;
    items.push_back(item);
  }

  // Whether single cuts could be done sooner. Items of few rows could: they wait for memory. Tasks
  // of many rows take time beside their cuts; workers take the longest first and end together but
  // for a part of the last of them.
  bool SoonerInCuts() const {
    const GroupJoining& joining = options_.joining;
    if (joining.least_rows == 0) return true;
    std::int64_t cuts = 0, longest = 0;
    for (const WorkItem& item : plan_.items) {
      if (item.row_end - item.row_begin < joining.least_rows) return true;
      const std::int64_t count = (item.key_end - item.key_begin + kCutKeys - 1) / kCutKeys;
      cuts += count;
      longest = std::max(longest, count);
    }
    const auto work = [&](std::int64_t items, std::int64_t cuts_of_all) {
      return static_cast<double>(cuts_of_all) * joining.times.cut +
             static_cast<double>(items) * joining.times.item;
    };
    const auto time = [&](std::int64_t items, std::int64_t longest_cuts) {
      const double last = work(1, longest_cuts);
      const double shared = work(items, cuts) * joining.kv_heads / joining.workers;
      return std::max(last, shared + last / 4);
    };
    return time(cuts, 1) < time(static_cast<std::int64_t>(plan_.items.size()), longest);
  }

  // Splits items of several cuts where PlanOptions::min_items asks for it.
  void SplitGroups() {
    if (options_.min_items <= 1 || !SoonerInCuts()) return;
    std::int64_t total = 0;
    for (const WorkItem& item : plan_.items) total += Work(item);
    const bool split_all = plan_.items.size() < static_cast<std::size_t>(options_.min_items);
    if (split_all && !FewItemsAreFasterInCuts()) return;
    std::vector<WorkItem>& items = scratch_.items;
    items.clear();
    for (WorkItem item : plan_.items) {
      if (!split_all && 2 * Work(item) * options_.min_items <= 3 * total) {
        items.push_back(item);
        continue;
      }
      const std::int32_t end = item.key_end;
      for (; item.key_begin < end; item.key_begin = item.key_end) {
        item.key_end = item.key_begin + std::min(end - item.key_begin, kCutKeys);
        AddItem(items, item);
      }
    }
    plan_.items.swap(items);
  }

  bool FewItemsAreFasterInCuts() const {
    const ReadingForm& form = options_.costs.form;
    ReadingCounts groups, cuts;
    groups.rows = cuts.rows = static_cast<std::int64_t>(positions_.size());
    for (const WorkItem& item : plan_.items) {
      const std::int64_t rows = item.row_end - item.row_begin, keys = item.key_end - item.key_begin;
      groups.Add(form, rows, keys, 1, keys);
      cuts.Add(form, rows, keys, (keys + kCutKeys - 1) / kCutKeys,
               std::min<std::int64_t>(keys, kCutKeys));
    }
    return FasterInCuts(options_.costs, groups, cuts);
  }

  void Join() {
    plan_.many_row_workers = 0;
    if (options_.joining.least_rows == 0) return;
    std::vector<bool> continued(nodes_.size());
    for (const PlanNode& node : nodes_) {
      if (ContinuesParent(node)) continued[node.parent] = true;
    }
    plan_.many_row_workers = JoinGroups(options_.joining, plan_.spans, continued, plan_.items);
  }

  void AddMerges() {
    std::vector<std::int32_t>& begin = plan_.merge_begin;
    begin.assign(positions_.size() + 1, 0);
    std::int64_t partials = 0;
    for (WorkItem& item : plan_.items) {
      item.first_partial = static_cast<std::int32_t>(partials);
      partials += item.reader_end - item.reader_begin;
      BANYAN_CHECK(partials <= std::numeric_limits<std::int32_t>::max());
      for (std::int32_t row = item.reader_begin; row < item.reader_end; ++row) ++begin[row + 1];
    }
    plan_.partials = static_cast<std::int32_t>(partials);
    for (std::size_t row = 1; row < begin.size(); ++row) begin[row] += begin[row - 1];

    plan_.merges.resize(static_cast<std::size_t>(partials));
    std::vector<std::int32_t>& next = scratch_.next_merge;
    next.assign(begin.begin(), begin.end() - 1);
    for (const WorkItem& item : plan_.items) {
      Opening opens = OpeningAt(plan_.spans[item.span], item.key_begin);
      if (item.key_begin == 0 && FollowsContext(plan_.context, nodes_[item.span], item.span)) {
        opens = Opening::kRest;
      }
      std::int32_t partial = item.first_partial;
      for (std::int32_t row = item.reader_begin; row < item.reader_end; ++row) {
        plan_.merges[next[row]++] = {partial++, opens};
      }
    }
  }

  void SortItems() {
    using Length = PlanScratch::Length;
    std::vector<Length>& order = scratch_.order;
    order.resize(plan_.items.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = {Work(plan_.items[i]), static_cast<std::int32_t>(i)};
    }
    std::sort(order.begin(), order.end(), [](const Length& a, const Length& b) {
      return a.work != b.work ? a.work > b.work : a.index < b.index;
    });
    std::vector<WorkItem>& items = scratch_.items;
    items.clear();
    for (const Length& length : order) items.push_back(plan_.items[length.index]);
    plan_.items.swap(items);
  }

  const std::span<const PlanNode> nodes_;
  const std::span<const std::int32_t> positions_;
  const PlanOptions& options_;
  PlanScratch& scratch_;
  AttentionPlan& plan_;
};

}  // namespace

void BuildPlan(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
               const PlanOptions& options, PlanScratch& scratch, AttentionPlan& plan) {
  Builder(nodes, positions, options, scratch, plan).Build();
#ifndef NDEBUG
  CheckPlan(plan, nodes, positions);
#endif
}

AttentionPlan BuildPlan(std::span<const PlanNode> nodes, std::span<const std::int32_t> positions,
                        const PlanOptions& options) {
  PlanScratch scratch;
  AttentionPlan plan;
  BuildPlan(nodes, positions, options, scratch, plan);
  return plan;
}

}  // namespace banyan
