// What attention costs on this machine, for planning: measured once and kept on disk, or built in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernels/kernels.h"
#include "plan/attention_costs.h"

namespace banyan {

struct PlanningCosts {
  AttentionCosts costs;
  std::string source;  // for people: where they are from, and why not from elsewhere
};

// Those that were kept for this machine, its threads, the shape, the kinds of numbers and this
// version of the program; else, if `measure`, those measured now, which are kept; else, and where
// measuring gave nothing to trust, those built in; after three such measurements there are no more.
// `file` only saves time: what it has and cannot be understood is as if it were not there. An empty
// path keeps nothing.
PlanningCosts FindPlanningCosts(Kernels& kernels, const AttentionShape& shape, bool measure,
                                const std::filesystem::path& file);

// CacheDirectory()/attention-costs.txt; empty where there is no such directory.
std::filesystem::path PlanningCostsFile();

// What costs are kept for, in one line; and keeps them.
std::string PlanningCostsKey(const Kernels& kernels, const AttentionShape& shape);
void KeepPlanningCosts(const std::filesystem::path& file, const std::string& key,
                       const CostTerms& seconds);

// Numbers of CostTerm in order, as they are kept. Nothing for what is no such text: as many numbers
// as there are terms, none negative or of more than a second.
std::string TextOfCosts(const CostTerms& seconds);
std::optional<CostTerms> CostsOfText(const std::string& text);

}  // namespace banyan
