// What attention costs on this machine, for planning: measured once and kept on disk, or built in.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "kernels/kernels.h"
#include "plan/cost.h"

namespace banyan {

struct PlanningCosts {
  AttentionCosts costs;
  std::string source;  // for people: where they come from, and why
};

// Costs stored for this machine, its threads, the shape, the number types and this version of the
// program; else, if `measure`, costs measured now, which are stored; else, and where the
// measurement cannot be trusted, built-in ones. After three such measurements it no longer
// measures. `file` is a cache: entries that cannot be parsed are ignored, and an empty path stores
// nothing.
PlanningCosts FindPlanningCosts(Kernels& kernels, const AttentionShape& shape, bool measure,
                                const std::filesystem::path& file);

// CacheDirectory()/attention-costs.txt; empty where there is no such directory.
std::filesystem::path PlanningCostsFile();

// The key that costs are stored under, in one line; and stores them.
std::string PlanningCostsKey(const Kernels& kernels, const AttentionShape& shape);
void KeepPlanningCosts(const std::filesystem::path& file, const std::string& key,
                       const CostTerms& seconds);

// Numbers of CostTerm in order, as they are stored. CostsOfText gives nothing unless the text has
// as many numbers as there are terms, each from 0 to 1 second.
std::string TextOfCosts(const CostTerms& seconds);
std::optional<CostTerms> CostsOfText(const std::string& text);

}  // namespace banyan
