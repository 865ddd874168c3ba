// What keys and values depend on beside tokens and positions: the part of a model's identity that
// matters to them, and the arithmetic that computes them.
#pragma once

#include <string>

#include "kernels/kernels.h"

namespace banyan {

// As a JSON object. `identity` is that of Model::identity: all of it but the text side, which has
// done its part when there are tokens, and of adapters that are kept apart none but the one with
// the hash `adapter`, if that is not empty.
std::string KvIdentityOf(const std::string& identity, const Kernels& kernels,
                         const std::string& adapter = "");

}  // namespace banyan
