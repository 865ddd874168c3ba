// Launches that may yet be replaced by faster ones with the same bits, as whoever records them sees
// it: a recording that holds some is made again once they are settled.
#pragma once

#include <cstdint>

namespace banyan::cuda {

class Unsettled {
 public:
  virtual ~Unsettled() = default;
  // Such launches so far: more after a recording than before it means that it holds some.
  virtual std::int64_t launches() const = 0;
  // Whether there is time to settle the next one that is run, not recorded.
  virtual bool MaySettle() const = 0;
};

}  // namespace banyan::cuda
