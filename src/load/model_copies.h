// The copies of a model that its devices have: kernels and weights, made from the same files.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/model.h"
#include "load/model_parts.h"
#include "model/adapter.h"
#include "model/weights.h"

namespace banyan {

// One for every device of LoadOptions::device, with kernels alone. Throws kUsage and kUnsupported
// where a device is none or is not there, and kUnsupported where devices are not alike: which one
// computes an answer would show in its bits.
std::vector<std::unique_ptr<Model::Parts>> MakeCopies(const LoadOptions& options);

// The adapters of LoadOptions, opened.
struct LoadedAdapters {
  explicit LoadedAdapters(const LoadOptions& options);
  std::optional<Adapter> merged;
  std::deque<Adapter> apart;  // in the order of variants
};

struct WeightsSource {
  const TensorStore& tensors;
  TensorNaming naming = TensorNaming::kHuggingFace;
  std::int64_t count = 0;  // of weights, about
};

// Loads the weights of all copies, side by side. REQUIRES: the first has its configuration, which
// the others get.
void LoadCopies(std::vector<std::unique_ptr<Model::Parts>>& copies, const WeightsSource& source,
                const LoadOptions& options);

}  // namespace banyan
