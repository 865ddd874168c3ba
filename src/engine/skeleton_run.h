// The values of one skeleton while they run. They are let in together, advance together, and give
// their memory back together: a value that has ended keeps its keys, because later ones see them.
#pragma once

#include <memory>
#include <vector>

#include "engine/stream.h"

namespace banyan {

struct SkeletonRun {
  std::vector<StreamId> members;  // while it runs, in order of the template; ended ones included
  // While it waits to run again: members that have ended. The others are in the line.
  std::vector<std::unique_ptr<Stream>> parked;
};

}  // namespace banyan
