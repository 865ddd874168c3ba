// The operations of layers that keep states, as states.h says them.
#pragma once

#include "kernels/host_states.h"
#include "kernels/reference/reference_kernels.h"

namespace banyan::reference {

void Convolve(const Step& step, const ConvolutionCall& call, HostStates& states, Tensor& out);
void Scan(const Step& step, const ScanCall& call, HostStates& states, Tensor& out);

}  // namespace banyan::reference
