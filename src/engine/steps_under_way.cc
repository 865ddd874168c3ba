#include "engine/steps_under_way.h"

#include <utility>

namespace banyan {

LaunchedStep StepsUnderWay::New() {
  LaunchedStep step;
  if (taken_.empty()) return step;
  step = std::move(taken_.back());
  taken_.pop_back();
  step.Clear();
  return step;
}

LaunchedStep StepsUnderWay::TakeOldest() {
  LaunchedStep step = std::move(steps_.front());
  steps_.erase(steps_.begin());
  return step;
}

void StepsUnderWay::Forget(Stream& stream) {
  if (stream.tokens_under_way == 0) return;
  steps_.back().readers[static_cast<size_t>(stream.choice)] = StreamId();
  stream.tokens_under_way = 0;
}

}  // namespace banyan
