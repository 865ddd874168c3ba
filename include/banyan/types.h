// Plain values shared by the whole library.
#pragma once

#include <cstdint>

namespace banyan {

// An entry of a model's vocabulary: 0 <= id < vocabulary size.
using TokenId = std::int32_t;

}  // namespace banyan
