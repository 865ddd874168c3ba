// Taking and giving back what a batch's run holds.
#include "serve/batches/run_resources.h"

#include <algorithm>

#include "serve/request/api_error.h"

namespace banyan {

RunningCalls::Entry::Entry(RunningCalls& calls, EngineCall& call) : calls_(calls), call_(call) {
  const std::lock_guard lock(calls_.mutex_);
  calls_.calls_.insert(&call_);
}

RunningCalls::Entry::~Entry() {
  const std::lock_guard lock(calls_.mutex_);
  calls_.calls_.erase(&call_);
}

void RunningCalls::Cancel() {
  const std::lock_guard lock(mutex_);
  for (EngineCall* call : calls_) call->Cancel();
}

void OutputRoom::Set(std::int64_t bytes) {
  files_.Count(tenant_, bytes - taken_, /*anyway=*/true);
  taken_ = bytes;
}

bool OutputRoom::Take(std::int64_t more) {
  try {
    files_.Count(tenant_, more, /*anyway=*/false);
  } catch (const ApiError&) {
    return false;
  }
  taken_ += more;
  return true;
}

LineMemory::~LineMemory() {
  lines_ -= taken_;
  if (taken_ > 0) room_.give_back(taken_);
}

bool LineMemory::Take(size_t bytes) {
  const size_t most = room_.most / 2;
  if (bytes > most - std::min(most, taken_)) {
    throw ApiError(413, "the line takes more memory than a batch has", "", "line_too_large");
  }
  if (lines_.fetch_add(bytes) + bytes <= most && room_.take(bytes)) {
    taken_ += bytes;
    return true;
  }
  lines_ -= bytes;
  return false;
}

}  // namespace banyan
