// What is behind banyan::Model: the loaded pieces that the engine works with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/model.h"
#include "base/hash.h"
#include "kernels/kernels.h"
#include "load/device_list.h"
#include "load/planning_costs.h"
#include "model/config.h"
#include "model/weights.h"
#include "text/text.h"

namespace banyan {

// What computes a request: the model itself, or the model with an adapter that is kept apart.
struct ModelVariant {
  std::string adapter;      // its name; empty: none
  std::string kv_identity;  // JSON, see KvIdentityOf
  Digest kv_name{};         // of that: what every name of a node begins with
  ModelCard card;
};

// An adapter that is kept apart.
struct AdapterIdentity {
  std::string name, hash;
};

struct Model::Parts {
  DeviceName device;
  std::string path;
  ModelConfig config;
  std::unique_ptr<Kernels> kernels;
  ModelWeights weights;
  std::vector<TokenId> end_tokens;
  std::shared_ptr<const Text> text;    // may be null
  std::string identity;                // JSON, see Model::identity
  Digest fingerprint{};                // of the identity
  std::vector<ModelVariant> variants;  // the model itself, and with each adapter kept apart

  // `apart`: adapters in the order of variants.
  void SetIdentity(std::string json, const std::vector<AdapterIdentity>& apart = {});
  // Index in `variants`. Throws kInput for a name that there is not.
  std::int32_t VariantOf(const std::string& adapter) const;
  // All but device, configuration, kernels and weights.
  void TakeCommon(const Parts& from);
  std::optional<MachineRates> rates;
  std::optional<PlanningCosts> costs;

  // Measured at the first call.
  const MachineRates& Rates() {
    if (!rates) rates = kernels->MeasureRates();
    return *rates;
  }
  // Found at the first call, which alone may measure them.
  const PlanningCosts& Costs(bool measure) {
    if (!costs) {
      const AttentionShape shape{config.heads, config.kv_heads, config.head_dim};
      const bool worth_it = config.layers * config.heads * config.head_dim >= kLeastMeasured;
      costs = FindPlanningCosts(*kernels, shape, measure && worth_it, PlanningCostsFile());
    }
    return *costs;
  }
  // Layers times values of all heads: with less, no job is long enough to earn the time back.
  static constexpr int kLeastMeasured = 2048;
};

}  // namespace banyan
