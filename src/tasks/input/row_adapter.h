// The adapter that a row of a job's input names.
#pragma once

#include <string>

#include "banyan/model.h"
#include "tasks/input/input.h"

namespace banyan {

// Of the field `adapter`; empty: none, or the model has no adapters to choose from, so that the
// field is one of the user's own. Throws kInput for what is no name of one.
std::string AdapterOfRow(const InputRow& row, const Model& model);

}  // namespace banyan
