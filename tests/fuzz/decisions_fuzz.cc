// A file of decisions about products, as a cache folder may hold it. What is read is written and
// read again; keys and algorithms have one text each.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/decision_file.h"
#include "kernels/units/product_decisions.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto decisions = banyan::ParseDecisions(text, "one, sm_90");
  if (banyan::ParseDecisions(banyan::DecisionText(decisions, "m"), "m") != decisions) std::abort();
  for (const auto& [key, value] : decisions) {
    if (const auto product = banyan::ProductKeyOf(key)) {
      if (banyan::TextOf(*product) != key) std::abort();
    }
    const auto numbers = banyan::AlgorithmNumbersOf(value);
    if (numbers && banyan::AlgorithmNumbersOf(banyan::TextOf(*numbers)) != numbers) std::abort();
  }
  return 0;
}
