#include "plan/joining.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "plan/batch.h"

namespace banyan {
namespace {

std::int32_t Keys(const WorkItem& item) { return item.key_end - item.key_begin; }
std::int32_t Rows(const WorkItem& item) { return item.row_end - item.row_begin; }
std::int64_t Cuts(const WorkItem& item) { return (Keys(item) + kCutKeys - 1) / kCutKeys; }

// Items [begin, end) of many rows that may become one; of one item if that cannot be joined.
struct Run {
  std::size_t begin = 0, end = 0;
  std::int64_t cuts = 0;

  std::int64_t groups() const { return static_cast<std::int64_t>(end - begin); }
};

bool Follows(const WorkItem& item, const WorkItem& next) {
  return next.span == item.span && next.row_end == item.row_end && next.key_begin == item.key_end;
}

// The longest run that begins with an item.
Run RunFrom(std::size_t begin, std::span<const KvSpan> spans, const std::vector<bool>& continued,
            std::span<const WorkItem> items) {
  Run run{begin, begin + 1};
  const KvSpan& span = spans[items[begin].span];
  if (OpeningAt(span, items[begin].key_begin) == Opening::kChunk) {
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
  }
  for (std::size_t i = run.begin; i < run.end; ++i) run.cuts += Cuts(items[i]);
  return run;
}

// A step's tasks, and what a choice would cost.
class Choice {
 public:
  Choice(const GroupJoining& joining, const std::vector<Run>& runs, std::int64_t few_pages)
      : workers_(joining.workers),
        kv_heads_(joining.kv_heads),
        times_(joining.times),
        runs_(runs),
        few_pages_(few_pages * joining.kv_heads) {
    // Sums over the first runs of what they take joined, and of what the others take as they are.
    joined_.push_back(0.0);
    for (const Run& run : runs_) {
      joined_.push_back(joined_.back() + Time(run.cuts));
      single_ += static_cast<double>(run.groups()) * times_.item +
                 static_cast<double>(run.cuts) * times_.cut;
      singles_.push_back(single_);
      groups_ += run.groups();
      if (run.groups() > 1) ++joinable_;
    }
    while (longest_ < runs_.size() && runs_[longest_].cuts == runs_.front().cuts) ++longest_;
  }

  // Tries whole rounds of joined and of single tasks.
  void Search() {
    Try(workers_);
    if (few_pages_ == 0 || runs_.empty()) return;
    for (const std::int64_t tasks : {static_cast<std::int64_t>(joinable_), groups_}) {
      for (std::int64_t rounds = 1, workers = 0; rounds <= tasks * kv_heads_; ++rounds) {
        workers = (tasks * kv_heads_ + rounds - 1) / rounds;
        if (workers >= workers_) continue;
        if (workers < std::max(1, workers_ / kLeastShare)) break;
        Try(static_cast<int>(workers));
      }
    }
  }

  std::size_t best_joined() const { return best_joined_; }
  int best_workers() const { return best_workers_; }

 private:
  static constexpr int kLeastShare = 3;  // this part of the workers at least takes many rows

  double Time(std::int64_t cuts) const {
    return static_cast<double>(cuts) * times_.cut + times_.item;
  }

  void Try(int workers) {
    const auto tasks = static_cast<std::int64_t>(joinable_) * kv_heads_;
    const auto whole_rounds = static_cast<std::size_t>(tasks / workers * workers / kv_heads_);
    for (const std::size_t joined : {joinable_, whole_rounds, std::size_t{0}}) {
      const double cost = Cost(workers, joined);
      if (cost >= best_cost_) continue;
      best_cost_ = cost;
      best_joined_ = joined;
      best_workers_ = workers;
    }
  }

  double Cost(int workers, std::size_t joined) const {
    const double many = ManyTime(workers, joined);
    if (few_pages_ == 0) return many;
    const double all = FewTime(workers_);
    if (workers == workers_) return many + all;
    // What is left when the others come is done by all.
    const double few = FewTime(workers_ - workers);
    return few <= many ? many : many + all * (1.0 - many / few);
  }

  // Until the last worker is done with many rows. The tasks of the longest kind come in rounds;
  // shorter ones fill gaps, but for a part of the last of them.
  double ManyTime(int workers, std::size_t joined) const {
    if (runs_.empty()) return 0.0;
    const double single = Time(std::min<std::int64_t>(runs_.front().cuts, kCutsPerGroup));
    const std::int64_t longest =
        joined > 0 ? static_cast<std::int64_t>(std::min(joined, longest_)) : groups_;
    const double longest_time = joined > 0 ? Time(runs_.front().cuts) : single;
    const double rounds =
        static_cast<double>((longest * kv_heads_ + workers - 1) / workers) * longest_time;
    if (joined == 0 || (joined == runs_.size() && longest_ == runs_.size())) return rounds;
    const double total = (joined_[joined] + single_ - (joined > 0 ? singles_[joined - 1] : 0.0)) *
                         static_cast<double>(kv_heads_) / workers;
    const double last = joined < runs_.size() ? single : Time(runs_.back().cuts);
    return std::max(rounds, total + last / 4);
  }

  double FewTime(int workers) const {
    const double page =
        std::max<double>(times_.page / static_cast<float>(workers), times_.memory_page);
    return times_.start + static_cast<double>(few_pages_) * page;
  }

  const int workers_;
  const std::int64_t kv_heads_;
  const WorkerTimes times_;
  const std::vector<Run>& runs_;  // longest first
  const std::int64_t few_pages_;
  std::vector<double> joined_, singles_;
  double single_ = 0.0;       // all of them
  std::int64_t groups_ = 0;   // of all runs
  std::size_t joinable_ = 0;  // runs of several groups
  std::size_t longest_ = 0;   // runs as long as the first
  double best_cost_ = std::numeric_limits<double>::infinity();
  std::size_t best_joined_ = 0;
  int best_workers_ = 1;
};

}  // namespace

int JoinGroups(const GroupJoining& joining, std::span<const KvSpan> spans,
               const std::vector<bool>& continued, std::vector<WorkItem>& items) {
  BANYAN_CHECK(joining.least_rows >= 1 && joining.kv_heads >= 1 && joining.workers >= 1);
  std::vector<Run> runs;
  std::int64_t few_pages = 0;
  for (std::size_t i = 0; i < items.size();) {
    if (Rows(items[i]) < joining.least_rows) {
      few_pages += (Keys(items[i]) + kPageTokens - 1) / kPageTokens;
      ++i;
      continue;
    }
    runs.push_back(RunFrom(i, spans, continued, items));
    i = runs.back().end;
  }
  std::stable_sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) {
    return a.groups() != b.groups() ? a.groups() > b.groups() : a.cuts > b.cuts;
  });
  Choice choice(joining, runs, few_pages);
  choice.Search();
  runs.resize(choice.best_joined());

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
  return choice.best_workers();
}

}  // namespace banyan
