#include "tasks/input/record_id.h"

#include "base/error.h"
#include "base/json_row.h"

namespace banyan {

Json IdOf(const Json& row) {
  const auto it = row.find("id");
  if (it == row.end() || it->is_null()) {
    Throw(ErrorKind::kInput, "expected the field 'id', found none");
  }
  if (!it->is_string() && !IsNumber(*it)) {
    Throw(ErrorKind::kInput, "'id': expected a text or a number, found {}", TypeName(*it));
  }
  if (it->is_string() && it->get_ref<const std::string&>().empty()) {
    Throw(ErrorKind::kInput, "'id' is empty");
  }
  return *it;
}

}  // namespace banyan
