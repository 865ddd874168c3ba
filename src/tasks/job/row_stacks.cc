#include "tasks/job/row_stacks.h"

#include <exception>
#include <utility>

#include "tasks/input/input.h"

namespace banyan {

// A row that cannot be asked stands alone, as an error.
void RowStacks::Add(TakenRow taken) {
  std::string name;
  if (task_.most_stacked() > 1 && !taken.row.problem) {
    try {
      name = task_.StackName(taken.row) + "\n" + AdapterOfRow(taken.row, model_);
    } catch (const std::exception& e) {
      taken.row.problem = ProblemOf(e);
    }
  }
  const bool alone = task_.most_stacked() == 1 || taken.row.problem;
  if (alone || name != name_) End();
  name_ = std::move(name);
  growing_.push_back(std::move(taken));
  if (alone || growing_.size() == static_cast<size_t>(task_.most_stacked())) End();
}

void RowStacks::End() {
  if (!growing_.empty()) whole_.push_back(std::exchange(growing_, {}));
}

std::vector<TakenRow> RowStacks::TakeRecord() {
  std::vector<TakenRow> record = std::move(whole_.front());
  whole_.pop_front();
  return record;
}

}  // namespace banyan
