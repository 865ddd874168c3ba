// The text of a model card. What is accepted is written and read again, and gives probabilities.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>

#include "banyan/error.h"
#include "load/model_card.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const banyan::ModelCard card = banyan::ReadModelCard(text, "fuzz");
    const std::string written = card.ToJson();
    if (banyan::ReadModelCard(written, "fuzz").ToJson() != written) std::abort();
    for (const auto& [task, kinds] : card.confidence) {
      for (const auto& [kind, calibration] : kinds) {
        if (card.CalibrationOf(task, kind) == nullptr) std::abort();
        for (const double x : {0.0, -1.0, -1e30, -std::numeric_limits<double>::infinity()}) {
          const double p = calibration.Probability(x);
          if (!(p >= 0.0 && p <= 1.0)) std::abort();
        }
      }
    }
  } catch (const banyan::Error&) {
  }
  return 0;
}
