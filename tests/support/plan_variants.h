// Every way to plan a step that must give the same bits.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "plan/build.h"

namespace banyan {

struct PlanVariant {
  std::string name;
  PlanOptions options;
};

inline std::vector<PlanVariant> AllPlanVariants() {
  struct Sharing {
    const char* name;
    ItemSharing sharing;
    int share_levels;
    AttentionCosts costs = {};
  };
  AttentionCosts apart, mixed;  // of machines on which few rows, or few rows and keys, read apart
  apart[CostTerm::kFewKey] = 1e-9;
  apart[CostTerm::kManyKey] = 1e-6;
  mixed[CostTerm::kFewKey] = 2e-9;
  mixed[CostTerm::kManyUnit] = 1e-6;
  mixed[CostTerm::kManyPair] = 1e-9;
  std::vector<PlanVariant> variants;
  for (const Sharing& sharing :
       {Sharing{"per stream", ItemSharing::kPerStream, 0}, Sharing{"tree", ItemSharing::kTree, 0},
        Sharing{"tree, 1 level", ItemSharing::kTree, 1},
        Sharing{"tree, 2 levels", ItemSharing::kTree, 2},
        Sharing{"stacked", ItemSharing::kStacked, 0}, Sharing{"auto", ItemSharing::kAuto, 0},
        Sharing{"auto, apart", ItemSharing::kAuto, 0, apart},
        Sharing{"auto, mixed", ItemSharing::kAuto, 0, mixed}}) {
    for (int max_item_rows : {1, 3, 64}) {
      const auto add = [&](int min_items, const GroupJoining& joining) {
        variants.push_back({fmt::format("{}, {} rows an item, at least {} items, {} rows joined",
                                        sharing.name, max_item_rows, min_items, joining.least_rows),
                            {.sharing = sharing.sharing,
                             .share_levels = sharing.share_levels,
                             .max_item_rows = max_item_rows,
                             .min_items = min_items,
                             .costs = sharing.costs,
                             .joining = joining}});
      };
      for (int min_items : {1, 12, 1'000'000}) add(min_items, {});
      add(1, {.least_rows = 1});  // all that can be
      add(12, {.least_rows = 2, .kv_heads = 2, .workers = 5});
    }
  }
  return variants;
}

}  // namespace banyan
