#include "tasks/table/table_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "tasks/job/job_rows.h"
#include "tasks/output/journal.h"

namespace banyan {
namespace {

constexpr size_t kMostExplained = 10;  // orders of columns, those of most rows

struct HashOfKey {
  size_t operator()(const Key128& key) const { return static_cast<size_t>(key[0]); }
};
// The numbers of a column's different texts, which are known by their hashes.
using Numbers = std::unordered_map<Key128, std::int32_t, HashOfKey>;

double Percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

class TablePlan::PlannedRows : public RowSource {
 public:
  PlannedRows(const TablePlan& plan, const Wanted& wanted) : plan_(plan) {
    const auto add = [&](std::uint32_t number) {
      if (!wanted || wanted(number)) rows_.push_back(number);
    };
    for (const std::uint32_t number : plan.problems_) add(number);
    for (const std::uint32_t row : plan.order_.rows) add(plan.rows_of_[row]);
  }

  bool Next(InputRow& row) override {
    if (next_ == rows_.size()) return false;
    row = plan_.spool_.Read(rows_[next_]);
    // With its columns in another order a row is another record of the journal.
    if (!row.problem) row.content += plan_.OrderKey(row.index);
    row.input_position = static_cast<std::int64_t>(++next_);
    return true;
  }
  TableHeader Header() override { return plan_.header_; }
  // How far it is, counted in rows.
  std::int64_t total_bytes() const override { return static_cast<std::int64_t>(rows_.size()); }

 private:
  const TablePlan& plan_;
  std::vector<std::uint32_t> rows_;  // numbers in the spool
  size_t next_ = 0;
};

TablePlan::TablePlan(const TableTemplate& prompt, const Text& text, RowSource& source,
                     const Options& options)
    : prompt_(prompt),
      counts_tokens_(options.counts_tokens ||
                     (options.order == TableOrder::kAuto && prompt.may_reorder())),
      cells_(prompt.columns().size() + prompt.more_fields().size()) {
  header_ = source.Header();
  std::vector<Numbers> numbers(cells_.columns);
  KeySet identities;
  InputRow row;
  while ((options.limit < 0 || rows() < options.limit) && source.Next(row)) {
    if (options.stop && options.stop()) {
      stopped_ = true;
      break;
    }
    const auto number = static_cast<std::uint32_t>(spool_.size());
    BANYAN_CHECK(row.index == number);
    std::vector<std::string> values;
    try {
      if (!row.problem && !identities.Insert(KeyOf({DumpJson(IdOf(row.value))}))) {
        row.problem = RepeatedId();
      }
      if (!row.problem) values = prompt_.ValuesOf(row.value);
    } catch (const std::exception& e) {
      row.problem = ProblemOf(e);
    }
    spool_.Add(row);
    cells_of_.push_back(row.problem ? -1 : static_cast<std::int32_t>(rows_of_.size()));
    (row.problem ? problems_ : rows_of_).push_back(number);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto [at, is_new] = numbers[i].try_emplace(
          KeyOf({values[i]}), static_cast<std::int32_t>(cells_.tokens[i].size()));
      cells_.values.push_back(at->second);
      if (!is_new) continue;
      const bool listed = i < prompt_.columns().size();
      const std::string cell = listed ? prompt_.CellText(i, values[i]) : values[i];
      const size_t tokens = counts_tokens_ ? text.Encode(cell, false, false).size() : 0;
      cells_.tokens[i].push_back(static_cast<std::int32_t>(tokens));
    }
  }
  order_ = options.order == TableOrder::kGiven ? GivenOrder(cells_)
           : prompt_.may_reorder()             ? OrderBySharing(cells_, prompt_.columns().size())
                                               : OrderedRows(cells_);
}

const ColumnOrder& TablePlan::OrderOf(std::int64_t index) const {
  const std::int32_t row = cells_of_[static_cast<size_t>(index)];
  return order_.orders[row < 0 ? 0 : order_.order_of[static_cast<size_t>(row)]];
}

std::string TablePlan::OrderKey(std::int64_t index) const {
  const ColumnOrder& order = OrderOf(index);
  if (std::ranges::is_sorted(order)) return "";
  return fmt::format("\ncolumns {}", fmt::join(order, ","));
}

std::unique_ptr<RowSource> TablePlan::Rows(const Wanted& wanted) const {
  return std::make_unique<PlannedRows>(*this, wanted);
}

std::int64_t TablePlan::equal_prompts() const {
  std::int64_t equal = 0;
  for (size_t i = 1; i < order_.rows.size(); ++i) {
    bool same = true;
    for (size_t column = 0; column < cells_.columns && same; ++column) {
      same = cells_.value(order_.rows[i - 1], column) == cells_.value(order_.rows[i], column);
    }
    equal += same ? 1 : 0;
  }
  return equal;
}

std::string TablePlan::Explain() const {
  const auto names = [&](const ColumnOrder& order) {
    std::string text;
    for (const std::uint16_t column : order) {
      const size_t listed = prompt_.columns().size();
      text += fmt::format(
          "{}{}", text.empty() ? "" : ", ",
          column < listed ? prompt_.columns()[column] : prompt_.more_fields()[column - listed]);
    }
    return text;
  };
  const std::int64_t alone = TokensAlone(cells_), given = TokensShared(cells_, GivenOrder(cells_)),
                     planned = TokensShared(cells_, order_), bound = TokensBound(cells_);
  std::string text = fmt::format(
      "table     {} rows, {} with a problem; {} have the prompt of an earlier row, asked once\n"
      "columns   {} tokens as if alone\n"
      "          {} in the given order, if all that is shared is kept ({:.1f} %)\n"
      "          {} in this order ({:.1f} %)\n"
      "          no order needs fewer than {} ({:.1f} %)\n",
      rows(), problems_.size(), equal_prompts(), alone, given, Percent(given, alone), planned,
      Percent(planned, alone), bound, Percent(bound, alone));
  std::vector<std::pair<std::int64_t, size_t>> counts;  // rows, minus; and the order
  for (size_t i = 0; i < order_.orders.size(); ++i) counts.emplace_back(0, i);
  for (const std::uint32_t number : order_.order_of) --counts[number].first;
  std::ranges::stable_sort(counts);
  std::int64_t others = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i >= kMostExplained) {
      others -= counts[i].first;
    } else {
      text += fmt::format("order     {}: {} rows\n", names(order_.orders[counts[i].second]),
                          -counts[i].first);
    }
  }
  if (others > 0) {
    text +=
        fmt::format("          {} more orders: {} rows\n", counts.size() - kMostExplained, others);
  }
  return text;
}

}  // namespace banyan
