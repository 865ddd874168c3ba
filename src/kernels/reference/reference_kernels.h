// The specification: every operation written the plain way, summed in double, one thread. Slow on
// purpose. Other backends are judged by it, so nothing here is ever made clever.
// Both precisions compute the same way; they differ only in the type that KV is rounded to.
#pragma once

#include <memory>

#include "kernels/kernels.h"

namespace banyan {

std::unique_ptr<Kernels> MakeReferenceKernels(const KernelOptions& options);

}  // namespace banyan
