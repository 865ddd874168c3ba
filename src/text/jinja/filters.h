// Jinja's filters and tests by name.
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace banyan::jinja {

// Throw kUnsupported for a name that is not known here.
Value ApplyFilter(Runtime& runtime, const std::string& name, const Value& input,
                  const Arguments& arguments);
bool ApplyTest(Runtime& runtime, const std::string& name, const Value& input,
               const Arguments& arguments);

}  // namespace banyan::jinja
