#include "tasks/input/field_names.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "program/message_text.h"
#include "program/near_names.h"

namespace banyan {
namespace {

constexpr size_t kMostNames = 10'000;  // looked at: rows may have names of their own each
constexpr std::string_view kOfResults =
    "choice";  // carried on purpose, from rows of an earlier job

// Of rows that can do without; who misses the others says so in an error.
std::vector<std::string> OptionalFields(std::string_view task) {
  if (task == "ask") return {"questions", "question", "question_id", "choices", "instruction"};
  if (task == "extract") return {"documents", "category"};
  if (task == "rag") return {"documents", "examples"};
  return {};
}

}  // namespace

std::string DidYouMeanField(const Json& object, std::string_view wanted,
                            std::span<const std::string_view> known) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) {
    if (std::ranges::find(known, item.key()) == known.end()) names.push_back(item.key());
  }
  const std::string near = NearestName(wanted, names);
  return near.empty() ? "" : fmt::format("; did you mean '{}' by '{}'?", wanted, near);
}

MistypedFields::MistypedFields(std::string_view task) : known_(OptionalFields(task)) {}

void MistypedFields::Look(const InputRow& row) {
  if (known_.empty() || row.problem || !row.value.is_object()) return;
  for (const auto& item : row.value.items()) {
    auto found = names_.find(item.key());
    if (found == names_.end()) {
      if (names_.size() == kMostNames) continue;
      Name name;
      if (item.key() != kOfResults) name.meant = MistypedName(item.key(), known_);
      found = names_.emplace(item.key(), std::move(name)).first;
    }
    Name& name = found->second;
    if (name.meant.empty() || row.value.contains(name.meant)) continue;
    if (name.rows++ > 0) continue;
    name.place = row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
  }
}

std::vector<std::string> MistypedFields::Notices() const {
  std::vector<std::string> notices;
  for (const auto& [name, found] : names_) {
    if (found.rows == 0) continue;
    notices.push_back(
        fmt::format("{}: the field '{}' is carried, not read (in {}); did you mean '{}'?",
                    found.place, name, Plural(found.rows, "row"), found.meant));
  }
  return notices;
}

}  // namespace banyan
