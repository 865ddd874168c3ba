// What is behind banyan::Model: the loaded pieces that the engine works with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/model.h"
#include "base/sha256.h"
#include "kernels/kernels.h"
#include "model/config.h"
#include "model/weights.h"
#include "text/text_parts.h"

namespace banyan {

struct Model::Parts {
  std::string path;
  ModelConfig config;
  std::unique_ptr<Kernels> kernels;
  ModelWeights weights;
  std::vector<TokenId> end_tokens;
  std::shared_ptr<const Text> text;  // may be null
  std::string identity;              // JSON, see Model::identity
  Digest fingerprint{};              // of the identity
  std::string kv_identity;           // JSON, see KvIdentityOf
  Digest kv_name{};                  // of that: what every name of a node begins with

  void SetIdentity(std::string json);
  std::optional<MachineRates> rates;

  // Measured at the first call.
  const MachineRates& Rates() {
    if (!rates) rates = kernels->MeasureRates();
    return *rates;
  }
};

}  // namespace banyan
