// Methods of Python's str and dict that templates call.
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace banyan::jinja {

// The method bound to `object`, or undefined when its type has none of that name that we know.
Value FindMethod(Runtime& runtime, const Value& object, const std::string& name);

}  // namespace banyan::jinja
