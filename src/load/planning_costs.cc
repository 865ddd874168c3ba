#include "load/planning_costs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "banyan/version.h"
#include "base/decision_file.h"
#include "base/error.h"
#include "base/files.h"
#include "kernels/probe_costs.h"

namespace banyan {
namespace {

// Changes whenever kernels or the model of their costs do.
constexpr const char* kFormat = "attention costs 1, banyan " BANYAN_VERSION;

// The processor's name, or the numbers that identify it.
std::string Processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, numbers;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    if (line.starts_with("model name")) return line.substr(colon + 2);
    if (line.starts_with("CPU implementer") || line.starts_with("CPU part")) {
      numbers += (numbers.empty() ? "cpu " : " ") + line.substr(colon + 2);
    }
    if (line.starts_with("CPU part")) return numbers;
  }
  return "processor";
}

// A machine that is always busy should not be measured anew by every program that starts.
constexpr int kMostTries = 3;

// Kept where nothing could be trusted: "tried 2". 0 for any other text.
int TriesOfText(const std::string& text) {
  const bool is_count =
      text.size() == 7 && text.starts_with("tried ") && text[6] >= '1' && text[6] <= '9';
  return is_count ? text[6] - '0' : 0;
}

}  // namespace

std::string PlanningCostsKey(const Kernels& kernels, const AttentionShape& shape) {
  const KernelOptions& options = kernels.options();
  std::string key = fmt::format(
      "{} | {} | {} {} {} | {} {}", kernels.name(), kernels.asynchronous() ? "" : Processor(),
      shape.heads, shape.kv_heads, shape.head_dim,
      options.precision == Precision::kF32 ? "f32" : "mixed", static_cast<int>(options.kv_type));
  for (char& c : key) {
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  }
  return key;
}

void KeepPlanningCosts(const std::filesystem::path& file, const std::string& key,
                       const CostTerms& seconds) {
  DecisionFile(file, kFormat).Keep(key, TextOfCosts(seconds));
}

std::filesystem::path PlanningCostsFile() {
  const std::filesystem::path cache = CacheDirectory();
  return cache.empty() ? cache : cache / "attention-costs.txt";
}

std::string TextOfCosts(const CostTerms& seconds) {
  return fmt::format("{:.6g}", fmt::join(seconds, " "));
}

std::optional<CostTerms> CostsOfText(const std::string& text) {
  std::istringstream numbers(text);
  CostTerms seconds{};
  for (double& term : seconds) {
    if (!(numbers >> term) || !std::isfinite(term) || term < 0.0 || term > 1.0) return std::nullopt;
  }
  std::string more;
  if (numbers >> more) return std::nullopt;
  return seconds;
}

PlanningCosts FindPlanningCosts(Kernels& kernels, const AttentionShape& shape, bool measure,
                                const std::filesystem::path& file) {
  PlanningCosts found{BuiltInCosts(kernels, shape), "built in"};
  if (found.costs.seconds == CostTerms{}) return found;
  const std::string key = PlanningCostsKey(kernels, shape);
  int tries = 0;
  if (const auto text = DecisionFile(file, kFormat).Find(key)) {
    if (const auto seconds = CostsOfText(*text)) {
      found.costs.seconds = *seconds;
      found.source = "measured before, kept in " + file.string();
      return found;
    }
    tries = TriesOfText(*text);
    if (tries == 0) found.source = "built in; " + file.string() + " has others that cannot be read";
    if (tries >= kMostTries) {
      found.source = fmt::format("built in; {} measurements were not to be trusted, as {} says",
                                 tries, file.string());
    }
  }
  if (!measure || tries >= kMostTries) return found;
  try {
    const ProbedCosts probed = ProbeCosts(kernels, shape);
    if (!probed.trusted) {
      found.source = "built in; a measurement is not to be trusted: " + probed.why_not;
      DecisionFile(file, kFormat).Keep(key, fmt::format("tried {}", tries + 1));
      return found;
    }
    found.costs = probed.costs;
    found.source = "measured now";
    KeepPlanningCosts(file, key, probed.costs.seconds);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
    found.source = "built in; there was no memory to measure others";
  }
  return found;
}

}  // namespace banyan
