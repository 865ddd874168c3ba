// Processor time of the calling thread. A bound on it holds on a busy machine, where a bound on the
// clock does not.
#pragma once

#include <time.h>

namespace banyan::testing_support {

inline double ThreadProcessorSeconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace banyan::testing_support
