#include "tasks/job/task.h"

#include <fmt/format.h>

namespace banyan {

std::vector<OutputRow> RecordWork::Rows() {
  std::vector<OutputRow> rows;
  const auto count = static_cast<size_t>(row_count());
  for (size_t row = 0; row < count; ++row) rows.push_back(Row(row));
  return rows;
}

nlohmann::ordered_json ErrorAt(const RowPlace& place, const RowProblem& problem) {
  const std::string where =
      place.line > 0 ? fmt::format("{}, line {}", place.file, place.line) : place.file;
  return {{"kind", ErrorKindName(problem.kind)},
          {"message", fmt::format("{}: {}", where, problem.message)},
          {"file", place.file},
          {"line", place.line}};
}

}  // namespace banyan
