// Jinja's filters and tests by name.
#pragma once

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace banyan::jinja {

// Throw kUnsupported for a name that is not known here.
Value ApplyFilter(Runtime& runtime, const std::string& name, const Value& input,
                  const Arguments& arguments);
bool ApplyTest(Runtime& runtime, const std::string& name, const Value& input,
               const Arguments& arguments);

// Filters over sequences and mappings, in list_filters.cc: null when there is none of that name.
using Filter = Value (*)(Runtime&, const Value&, const Arguments&);
Filter FindListFilter(std::string_view name);

}  // namespace banyan::jinja
