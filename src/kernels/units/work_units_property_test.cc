// Units judged by the items that they are made of: expanded row by row, head by head and cut by
// cut, on random forests under every way to plan them.
#include "kernels/units/work_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "plan/batch.h"
#include "plan/build.h"
#include "support/plan_forest.h"

namespace banyan {
namespace {

constexpr int kRatios[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 40};
constexpr UnitForm kForms[] = {UnitForm::kBlocks, UnitForm::kWideAndNarrow};

std::int32_t RowOf(const WorkUnit& unit, std::int32_t packed_row, int ratio) {
  return unit.row_begin + (unit.first_packed_row + packed_row) / ratio;
}
std::int32_t PackedRows(const WorkUnit& unit, int ratio, int most) {
  return std::min(most, (unit.row_end - unit.row_begin) * ratio - unit.first_packed_row);
}
std::int32_t Rows(const WorkUnit& unit) { return unit.row_end - unit.row_begin; }
std::int32_t Keys(const WorkUnit& unit) { return unit.key_end - unit.key_begin; }

// A plan's units of one split.
class Units {
 public:
  Units(const AttentionPlan& plan, const std::vector<std::int32_t>& positions, int ratio,
        UnitForm form)
      : plan_(plan),
        positions_(positions),
        ratio_(ratio),
        form_(form),
        items_(WholeItems(plan)),
        units_(UnitsOf(items_, positions, {ratio, 2, form}, kBlocks)) {}

  static constexpr int kBlocks = 77;

  void ExpectAll() const {
    ExpectItemsOfPlan();
    ExpectCounts();
    ForEach([this](const WorkUnit& unit, int size) { ExpectOneTile(unit, size); });
    ExpectEachPairOnce();
    ExpectEachPartialOnce();
    ExpectItemOrder(form_ == UnitForm::kBlocks ? units_.many_rows : units_.few_rows);
    if (form_ == UnitForm::kWideAndNarrow) ExpectWideOrder();
  }

 private:
  template <typename Function>
  void ForEach(const Function& function) const {
    const int many = form_ == UnitForm::kBlocks ? kBlockRows : kWideRows;
    for (const WorkUnit& unit : units_.many_rows) function(unit, many);
    for (const WorkUnit& unit : units_.few_rows) function(unit, kNarrowRows);
  }

  void ExpectItemsOfPlan() const {
    ASSERT_EQ(items_.size(), plan_.items.size());
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const WorkItem& item = plan_.items[i];
      const KvSpan& span = plan_.spans[item.span];
      const WorkUnit& unit = items_[i];
      ASSERT_EQ(std::tie(unit.row_begin, unit.row_end, unit.reader_begin, unit.reader_end),
                std::tie(item.row_begin, item.row_end, item.reader_begin, item.reader_end));
      ASSERT_EQ(std::tie(unit.key_begin, unit.key_end, unit.first_partial),
                std::tie(item.key_begin, item.key_end, item.first_partial));
      ASSERT_EQ(std::tie(unit.first_page, unit.first_position),
                std::tie(span.first_page, span.first_position));
      ASSERT_EQ(unit.first_packed_row, 0);
    }
  }

  void ExpectCounts() const {
    const UnitCounts& counts = units_.counts;
    EXPECT_EQ(static_cast<std::size_t>(counts.wide), units_.many_rows.size());
    EXPECT_EQ(static_cast<std::size_t>(counts.narrow), units_.few_rows.size());
    EXPECT_EQ(counts.wide_blocks, counts.wide > 0 ? kBlocks : 0);
    EXPECT_EQ(counts.wide + counts.narrow > 0, !items_.empty());
    EXPECT_TRUE(form_ == UnitForm::kWideAndNarrow || counts.narrow == 0);
  }

  // The right size of tile, keys that its opening allows, the bounds of its rows' positions.
  void ExpectOneTile(const WorkUnit& unit, int size) const {
    ASSERT_GE(unit.first_packed_row, 0);
    ASSERT_EQ(unit.first_packed_row % size, 0);
    const std::int32_t rows = PackedRows(unit, ratio_, size);
    ASSERT_GE(rows, 1);
    if (form_ == UnitForm::kWideAndNarrow) {
      const bool few = Rows(unit) * ratio_ <= kMostNarrowRows && Keys(unit) <= kGroupKeys;
      ASSERT_EQ(size == kNarrowRows, few) << Rows(unit) << " rows, " << Keys(unit) << " keys";
    }
    ExpectWithinOpening(unit);

    // Below 0 where rows that stand before the span meet it (stacked execution).
    std::int32_t lowest = std::numeric_limits<std::int32_t>::max(), highest = -lowest;
    for (std::int32_t i = 0; i < rows; ++i) {
      const std::int32_t offset = positions_[RowOf(unit, i, ratio_)] - unit.first_position;
      lowest = std::min(lowest, offset);
      highest = std::max(highest, offset);
    }
    ASSERT_EQ(unit.lowest_offset, lowest);
    ASSERT_EQ(unit.highest_offset, highest);
  }

  // Spans with keys begin with different pages.
  const KvSpan& SpanOf(const WorkUnit& unit) const {
    const auto later = std::upper_bound(
        plan_.spans.begin(), plan_.spans.end(), unit.first_page,
        [](std::int32_t page, const KvSpan& span) { return page < span.first_page; });
    return *std::prev(later);
  }
  // Room for all cuts of all spans, in their order.
  std::size_t FirstCut(const KvSpan& span) const {
    return span.first_page * kPageTokens / kCutKeys + (&span - plan_.spans.data());
  }

  void ExpectWithinOpening(const WorkUnit& unit) const {
    const KvSpan& span = SpanOf(unit);
    ASSERT_EQ(unit.key_begin % kCutKeys, 0);
    ASSERT_LE(unit.key_end, span.length);
    for (std::int32_t key = unit.key_begin + kCutKeys; key < unit.key_end; key += kCutKeys) {
      const Opening opens = OpeningAt(span, key), first = OpeningAt(span, unit.key_begin);
      ASSERT_NE(first, Opening::kCut) << "goes on into another cut";
      ASSERT_NE(opens, Opening::kChunk) << "goes on into another chunk";
      if (opens == Opening::kGroup) {
        ASSERT_EQ(first, Opening::kChunk) << "goes on into another group";
      }
    }
  }

  // Keys by span, row, head and cut: what items have less what units take.
  void ExpectEachPairOnce() const {
    const std::size_t cuts = plan_.pages.size() * kPageTokens / kCutKeys + plan_.spans.size();
    std::vector<std::int16_t> left(positions_.size() * ratio_ * cuts);
    const auto count = [&](const WorkUnit& unit, std::int32_t row, std::int32_t head, int sign) {
      std::int16_t* of_span = &left[(row * ratio_ + head) * cuts + FirstCut(SpanOf(unit))];
      for (std::int32_t key = unit.key_begin; key < unit.key_end; key += kCutKeys) {
        of_span[key / kCutKeys] += sign * std::min(kCutKeys, unit.key_end - key);
      }
    };
    for (const WorkUnit& item : items_) {
      for (std::int32_t row = item.row_begin; row < item.row_end; ++row) {
        for (std::int32_t head = 0; head < ratio_; ++head) count(item, row, head, 1);
      }
    }
    ASSERT_TRUE(std::all_of(left.begin(), left.end(), [](int keys) { return keys <= kCutKeys; }));
    ForEach([&](const WorkUnit& unit, int size) {
      for (std::int32_t i = 0; i < PackedRows(unit, ratio_, size); ++i) {
        count(unit, RowOf(unit, i, ratio_), (unit.first_packed_row + i) % ratio_, -1);
      }
    });
    ASSERT_EQ(std::count(left.begin(), left.end(), 0), std::ssize(left));
  }

  void ExpectEachPartialOnce() const {
    std::vector<int> writes(static_cast<std::size_t>(plan_.partials) * ratio_);
    ForEach([&](const WorkUnit& unit, int size) {
      for (std::int32_t i = 0; i < PackedRows(unit, ratio_, size); ++i) {
        const std::int32_t row = RowOf(unit, i, ratio_);
        if (row < unit.reader_begin || row >= unit.reader_end) continue;
        const std::int32_t partial = unit.first_partial + row - unit.reader_begin;
        ASSERT_LT(partial, plan_.partials);
        ++writes[partial * ratio_ + (unit.first_packed_row + i) % ratio_];
      }
    });
    EXPECT_EQ(std::count(writes.begin(), writes.end(), 1), std::ssize(writes));
  }

  // As the plan has them, longest first, and an item's units one after the other.
  void ExpectItemOrder(const std::vector<WorkUnit>& units) const {
    const auto work = [](const WorkUnit& unit) { return std::int64_t{Rows(unit)} * Keys(unit); };
    for (std::size_t i = 1; i < units.size(); ++i) {
      ASSERT_GE(work(units[i - 1]), work(units[i]));
      if (units[i].first_packed_row == 0) continue;
      ASSERT_LT(units[i - 1].first_packed_row, units[i].first_packed_row);
      ASSERT_EQ(units[i - 1].row_begin, units[i].row_begin);
      ASSERT_EQ(units[i - 1].first_page, units[i].first_page);
    }
  }

  // No item follows one of a quarter of its work or less; those of one length that read the same
  // keys have no others between them.
  void ExpectWideOrder() const {
    const std::vector<WorkUnit>& units = units_.many_rows;
    const auto keys_of = [](const WorkUnit& unit) {
      return std::pair(unit.first_page, unit.key_begin);
    };
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::map<std::tuple<int, int, int, int>, std::size_t> last;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const WorkUnit& unit = units[i];
      const std::int64_t work = std::int64_t{Rows(unit)} * Keys(unit);
      ASSERT_LT(work / 4, least);
      least = std::min(least, work);
      const auto same = std::tuple(unit.first_page, unit.key_begin, Rows(unit), Keys(unit));
      const auto [before, is_first] = last.try_emplace(same, i);
      for (std::size_t j = before->second; !is_first && j < i; ++j) {
        ASSERT_EQ(keys_of(units[j]), keys_of(unit));
      }
      before->second = i;
    }
  }

  const AttentionPlan& plan_;
  const std::vector<std::int32_t>& positions_;
  const int ratio_;
  const UnitForm form_;
  const std::vector<WorkUnit> items_;
  const HostUnits units_;
};

TEST(WorkUnitsProperty, RandomPlansInEveryForm) {
  const std::vector<PlanVariant> variants = AllPlanVariants();
  std::size_t next_ratio = 0;
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const PlanForest forest = RandomForest(seed, {.own_rows = 20}).Take();
    for (std::size_t i = seed % 8; i < variants.size(); i += 8) {
      const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), variants[i].options);
      const int ratio = kRatios[next_ratio++ % std::size(kRatios)];
      for (const UnitForm form : kForms) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << variants[i].name << ", "
                                        << ratio << " heads, form " << static_cast<int>(form));
        Units(plan, forest.positions(), ratio, form).ExpectAll();
        if (HasFatalFailure()) return;
      }
    }
  }
}

// What the plan takes for many rows is what becomes wide, and the workers that it leaves to them
// are the blocks that take them.
TEST(WorkUnitsProperty, WideIsWhatThePlanTakesForManyRows) {
  int joined = 0, mixed = 0;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    const PlanForest forest = RandomForest(seed, {.own_rows = 300}).Take();
    for (const int ratio : kRatios) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << ratio << " heads");
      PlanOptions options;
      options.joining = {.least_rows = LeastWideRows(ratio), .kv_heads = 2, .workers = 9};
      const AttentionPlan plan = BuildPlan(forest.nodes(), forest.positions(), options);
      const HostUnits units = UnitsOf(WholeItems(plan), forest.positions(),
                                      {ratio, 2, UnitForm::kWideAndNarrow}, plan.many_row_workers);
      for (const WorkUnit& unit : units.many_rows) {
        ASSERT_GE(Rows(unit), options.joining.least_rows);
        joined += Keys(unit) > kGroupKeys;
      }
      for (const WorkUnit& unit : units.few_rows) {
        ASSERT_LT(Rows(unit), options.joining.least_rows);
        ASSERT_LE(Keys(unit), kGroupKeys);
      }
      if (units.counts.wide == 0) continue;
      ASSERT_EQ(units.counts.wide_blocks, plan.many_row_workers);
      ASSERT_GE(units.counts.wide_blocks, 1);
      ASSERT_LE(units.counts.wide_blocks, options.joining.workers);
      mixed += units.counts.narrow > 0;
    }
  }
  EXPECT_GT(joined, 100);
  EXPECT_GT(mixed, 100);
}

}  // namespace
}  // namespace banyan
