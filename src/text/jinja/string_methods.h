// Methods of Python's str.
#pragma once

#include <string_view>

#include "text/jinja/value.h"

namespace banyan::jinja {

using Method = Value (*)(Runtime&, const Value& self, const Arguments&);

// Null when there is no such method.
Method FindStringMethod(std::string_view name);

}  // namespace banyan::jinja
