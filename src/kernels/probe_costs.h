// What attention costs (plan/cost.h): built-in figures for known machines, or a fit to
// the times of small plans that are computed on this machine by the backend's own operation.
#pragma once

#include <string>

#include "kernels/kernels.h"
#include "plan/cost.h"

namespace banyan {

struct ProbedCosts {
  AttentionCosts costs;
  bool trusted = false;
  std::string why_not;       // the reason, if not trusted
  double seconds = 0.0;      // that measuring took
  double worst_error = 0.0;  // of a probe, |predicted / measured - 1|
};

// Takes at most about half a second on a CPU, less on a device, and some tens of MiB of memory.
// Probes run several times in alternation, and the fastest run of each counts. A CPU run is timed
// by the processor time of all threads where that is less than wall time, so that other processes
// change little. Throws kLimit when memory runs out.
ProbedCosts ProbeCosts(Kernels& kernels, const AttentionShape& shape);

// Used where nothing was measured: for cpu the costs of a Neoverse-N1, for cuda those of an H200,
// scaled by the shape. All zero for the reference backend, whose time does not count.
AttentionCosts BuiltInCosts(const Kernels& kernels, const AttentionShape& shape);

}  // namespace banyan
