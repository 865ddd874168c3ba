// Functions that every template sees. `namespace` is the evaluator's own, for it owns them.
#pragma once

#include "text/jinja/eval.h"

namespace banyan::jinja {

// range, dict, raise_exception and strftime_now.
Variables GlobalFunctions();

}  // namespace banyan::jinja
