// What the command line says of precision and KV, as the kernels want it.
#pragma once

#include "banyan/model.h"
#include "kernels/kernels.h"

namespace banyan {

// Throws kUsage naming the option, what was expected and what was found.
KernelOptions KernelOptionsOf(const LoadOptions& options);

const char* KvTypeName(KvType type);

}  // namespace banyan
