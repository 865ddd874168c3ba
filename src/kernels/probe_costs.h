// Measures what attention costs on this machine (plan/attention_costs.h): small plans of known
// items, computed by the backend's own operation, and the factors that explain their times best.
#pragma once

#include <string>

#include "kernels/kernels.h"
#include "plan/attention_costs.h"

namespace banyan {

struct ProbedCosts {
  AttentionCosts costs;
  bool trusted = false;
  std::string why_not;       // where it is not: what spoke against it
  double seconds = 0.0;      // that measuring took
  double worst_error = 0.0;  // of a probe, |predicted / measured - 1|
};

// Takes at most about half a second on a CPU, less on a device, and some tens of MiB of memory. Of
// several short runs of each probe, in turns, the fastest counts; on a CPU by the processor time
// that all threads took, where that is less than the clock's: others' work then changes little.
// Throws kLimit when memory is not to be had.
ProbedCosts ProbeCosts(Kernels& kernels, const AttentionShape& shape);

}  // namespace banyan
