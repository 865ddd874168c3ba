// Texts among the parameters of a job, as its journal and receipt name them.
#pragma once

#include <string>

#include "base/json.h"

namespace banyan {

// The text itself when it is short, else what tells it from others.
Json TextParameter(const std::string& text);

}  // namespace banyan
