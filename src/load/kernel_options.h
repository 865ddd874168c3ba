// KernelOptions from LoadOptions: precision, KV type and residency of weights by their names.
#pragma once

#include "banyan/model.h"
#include "kernels/kernels.h"

namespace banyan {

// Throws kUsage naming the option, what was expected and what was found.
KernelOptions KernelOptionsOf(const LoadOptions& options);

const char* KvTypeName(KvType type);

}  // namespace banyan
