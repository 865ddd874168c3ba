// The id of a record, as its row has it.
#pragma once

#include "base/json.h"

namespace banyan {

// A row's id: a string or a number. Throws kInput when it has none.
Json IdOf(const Json& row);

}  // namespace banyan
