// Fields of the input in the rows of a task: under their own names, unless a result has that name.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace banyan {

// Every field that a task ("ask", "extract", "rag") may write into a row, whatever its options, but
// for those that it reads from the input under the same name (id, question …).
const std::set<std::string>& ResultNames(std::string_view task);

// The names of the input's fields in a task's rows. A name depends on nothing but the task: not on
// what a row happens to hold, and two fields never get one name.
class CarriedNames {
 public:
  // `more`: results that this job has besides, such as the attributes of flat rows.
  explicit CarriedNames(std::string_view task, std::vector<std::string> more = {});

  // "input_" before a result's name, and before a name that this rule could have made of one.
  std::string Of(const std::string& name) const;
  // Adds fields to a row; those that `is_read` (may be empty) says are read stay away. A name that
  // the row has already is not written again.
  void Add(const Json& fields, const std::function<bool(const std::string&)>& is_read,
           nlohmann::ordered_json& row) const;

 private:
  std::set<std::string> results_;
};

}  // namespace banyan
