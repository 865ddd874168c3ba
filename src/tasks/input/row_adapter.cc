#include "tasks/input/row_adapter.h"

#include "base/error.h"
#include "base/json_row.h"
#include "load/model_parts.h"

namespace banyan {

std::string AdapterOfRow(const InputRow& row, const Model& model) {
  if (model.parts().variants.size() < 2) return "";
  const auto field = row.value.find("adapter");
  if (field == row.value.end() || field->is_null()) return "";
  if (!field->is_string()) {
    Throw(ErrorKind::kInput, "'adapter': expected an adapter's name, found {}", TypeName(*field));
  }
  std::string name = field->get<std::string>();
  model.parts().VariantOf(name);  // throws for a name that there is not
  return name;
}

}  // namespace banyan
