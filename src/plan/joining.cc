#include "plan/joining.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "plan/batch.h"

namespace banyan {
namespace {

std::int32_t Keys(const WorkItem& item) { return item.key_end - item.key_begin; }
std::int32_t Rows(const WorkItem& item) { return item.row_end - item.row_begin; }

// Items [begin, end) that may become one.
struct Run {
  std::size_t begin = 0, end = 0;

  std::int64_t groups() const { return static_cast<std::int64_t>(end - begin); }
};

bool Follows(const WorkItem& item, const WorkItem& next) {
  return next.span == item.span && next.row_end == item.row_end && next.key_begin == item.key_end;
}

// The longest run that begins with an item; of one item if that cannot be joined.
Run RunFrom(std::size_t begin, std::span<const KvSpan> spans, const std::vector<bool>& continued,
            std::span<const WorkItem> items) {
  Run run{begin, begin + 1};
  const KvSpan& span = spans[items[begin].span];
  if (OpeningAt(span, items[begin].key_begin) != Opening::kStretch) return run;
  while (run.end < items.size() && Keys(items[run.end - 1]) == kGroupKeys &&
         Follows(items[run.end - 1], items[run.end]) &&
         OpeningAt(span, items[run.end].key_begin) == Opening::kGroup) {
    ++run.end;
  }
  // A group that goes on elsewhere is not complete.
  const WorkItem& last = items[run.end - 1];
  const bool goes_on =
      continued[last.span] || (run.end < items.size() && Follows(last, items[run.end]));
  if (run.groups() > 1 && Keys(last) < kGroupKeys && goes_on) --run.end;
  return run;
}

StepLoad LoadOf(std::span<const WorkItem> items, int least_rows) {
  StepLoad load;
  for (const WorkItem& item : items) {
    if (Rows(item) >= least_rows) {
      ++load.many_groups;
      load.many_cuts += (Keys(item) + kCutKeys - 1) / kCutKeys;
    } else {
      ++load.few_items;
      load.few_pages += (Keys(item) + kPageTokens - 1) / kPageTokens;
    }
  }
  return load;
}

// How many of the runs to join: whole rounds of tasks for all workers, and a last one if its groups
// as items of their own would take as many rounds as the run has groups. Compared with the best
// number found by simulating the workers, on decoding of 32 to 1024 streams over 1 to 32 k keys and
// on prefill, this costs at most 5 % and is never worse than joining none.
std::size_t RunsToJoin(const GroupJoining& joining, const std::vector<Run>& runs, int workers) {
  if (runs.empty()) return 0;
  const auto tasks = static_cast<std::int64_t>(runs.size()) * joining.kv_heads;
  const std::int64_t rest = tasks % workers, groups = runs.front().groups();
  if (groups * rest > (groups - 1) * workers) return runs.size();
  return static_cast<std::size_t>((tasks - rest) / joining.kv_heads);
}

}  // namespace

int WorkerDivision::SetApart(const StepLoad& load, int kv_heads) const {
  const bool rounds = load.many_groups * kv_heads >= 2 * std::int64_t{workers};
  const bool few_are_long = pages_of_long_item > 0 && load.few_items > 0 &&
                            load.few_pages >= pages_of_long_item * load.few_items;
  if (!rounds || !few_are_long || workers < 2) return 0;
  const float many = cut_time * static_cast<float>(load.many_cuts);
  const float few = page_time * static_cast<float>(load.few_pages);
  const float share = few / (few + many) * static_cast<float>(workers);
  return std::clamp(static_cast<int>(std::lround(share)), 1, workers / 2);
}

void JoinGroups(const GroupJoining& joining, std::span<const KvSpan> spans,
                const std::vector<bool>& continued, std::vector<WorkItem>& items) {
  if (joining.least_rows <= 0) return;
  BANYAN_CHECK(joining.kv_heads >= 1 && joining.division.workers >= 1);
  std::vector<Run> runs;
  for (std::size_t i = 0; i < items.size();) {
    const Run run = RunFrom(i, spans, continued, items);
    if (run.groups() > 1 && Rows(items[i]) >= joining.least_rows) runs.push_back(run);
    i = run.end;
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.groups() > b.groups(); });
  const int apart = joining.division.SetApart(LoadOf(items, joining.least_rows), joining.kv_heads);
  runs.resize(RunsToJoin(joining, runs, joining.division.workers - apart));

  // The first item of a run becomes the whole; the others go.
  std::vector<bool> gone(items.size());
  for (const Run& run : runs) {
    items[run.begin].key_end = items[run.end - 1].key_end;
    std::fill(gone.begin() + static_cast<std::ptrdiff_t>(run.begin) + 1,
              gone.begin() + static_cast<std::ptrdiff_t>(run.end), true);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!gone[i]) items[kept++] = items[i];
  }
  items.resize(kept);
}

}  // namespace banyan
