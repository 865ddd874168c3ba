#include "engine/step_row_limit.h"

#include <algorithm>

namespace banyan {
namespace {

// Steps after a refusal of memory until larger ones are tried again.
constexpr int kStepsBeforeGrowing = 32;

}  // namespace

void StepRowLimit::Refused(int rows) {
  rows_ = rows / 2;
  launched_ = 0;
  ++refusals_;
}

void StepRowLimit::Launched() {
  if (rows_ == most_ || ++launched_ < kStepsBeforeGrowing) return;
  rows_ = std::min(most_, 2 * rows_);
  launched_ = 0;
}

}  // namespace banyan
