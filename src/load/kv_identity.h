// What keys and values depend on beside tokens and positions: the part of a model's identity that
// matters to them, and the arithmetic that computes them.
#pragma once

#include <string>

#include "kernels/kernels.h"

namespace banyan {

// As a JSON object. `identity` is that of Model::identity: all of it but the text side, which has
// done its part when there are tokens.
std::string KvIdentityOf(const std::string& identity, const Kernels& kernels);

}  // namespace banyan
