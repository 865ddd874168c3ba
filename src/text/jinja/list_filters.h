// Filters over sequences and mappings.
#pragma once

#include <string_view>

#include "text/jinja/value.h"

namespace banyan::jinja {

using ListFilter = Value (*)(Runtime&, const Value&, const Arguments&);

// Null when there is no such filter.
ListFilter FindListFilter(std::string_view name);

}  // namespace banyan::jinja
