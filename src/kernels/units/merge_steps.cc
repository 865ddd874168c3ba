#include "kernels/units/merge_steps.h"

#include <algorithm>
#include <span>

namespace banyan {
namespace {

// The end of the part of a list that begins at `begin`: the next entry that opens at least as much.
std::size_t EndOfPart(std::span<const MergeEntry> list, std::size_t begin, Opening level) {
  std::size_t end = begin + 1;
  while (end < list.size() && list[end].opens < level) ++end;
  return end;
}

// `steps` are those of [begin, end) of the list, a stretch or group that is not its first.
void GiveOwnPartial(std::span<MergeStep> steps) {
  if (steps.size() < 2) return;
  steps.front().opens = 1;
  ++steps.back().closes;
}

void AddSteps(std::span<const MergeEntry> list, std::span<MergeStep> steps) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    steps[i].partial = list[i].partial;
    steps[i].scales_context = list[i].opens == Opening::kRest ? 1 : 0;
  }
  for (std::size_t stretch = 0; stretch < list.size();) {
    const std::size_t stretch_end = EndOfPart(list, stretch, Opening::kStretch);
    if (stretch > 0) GiveOwnPartial(steps.subspan(stretch, stretch_end - stretch));
    const auto groups = list.first(stretch_end);
    for (std::size_t group = stretch; group < stretch_end;) {
      const std::size_t group_end = EndOfPart(groups, group, Opening::kGroup);
      if (group > stretch) GiveOwnPartial(steps.subspan(group, group_end - group));
      group = group_end;
    }
    stretch = stretch_end;
  }
}

}  // namespace

std::vector<MergeStep> MergeStepsOf(const AttentionPlan& plan) {
  std::vector<MergeStep> steps(plan.merges.size());
  for (std::size_t row = 0; row + 1 < plan.merge_begin.size(); ++row) {
    const auto begin = static_cast<std::size_t>(plan.merge_begin[row]);
    const std::size_t count = static_cast<std::size_t>(plan.merge_begin[row + 1]) - begin;
    AddSteps(std::span(plan.merges).subspan(begin, count), std::span(steps).subspan(begin, count));
  }
  return steps;
}

}  // namespace banyan
