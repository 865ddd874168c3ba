#include "program/models.h"

#include <cstdlib>
#include <system_error>

#include "base/decision_file.h"
#include "base/files.h"
#include "formats/locate.h"
#include "load/fetch_sources.h"

namespace banyan {
namespace {

constexpr const char* kBetterModel = "smollm2-135m-instruct";
constexpr const char* kBetterAdapter = "smollm2-reader";
constexpr const char* kChoiceKey = "reader";

// The adapter with which the better model is better than the shipped one (docs/results.md).
const char* BetterAdapterFor(ReaderTask task) {
  return task == ReaderTask::kExtract ? "smollm2-extract" : kBetterAdapter;
}

DecisionFile ChoiceFile() {
  const std::filesystem::path cache = CacheDirectory();
  return cache.empty() ? DecisionFile() : DecisionFile(cache / "reader.txt", "the reader 1");
}

}  // namespace

std::optional<ReaderOffer> BetterReader() {
  if (!ShippedAdapter(kBetterAdapter)) return std::nullopt;
  for (const FetchSource& source : kFetchSources) {
    if (std::string_view(source.name) != kBetterModel) continue;
    return ReaderOffer{source.name, kBetterAdapter, source.licence, source.sha256, source.bytes};
  }
  return std::nullopt;
}

ReaderChoice ChosenReader() {
  const std::optional<std::string> kept = ChoiceFile().Find(kChoiceKey);
  if (!kept) return ReaderChoice::kNone;
  if (*kept != "better") return ReaderChoice::kShipped;
  std::error_code none;
  const bool here = std::filesystem::is_directory(ModelCacheDirectory() / kBetterModel, none);
  return here ? ReaderChoice::kBetter : ReaderChoice::kNone;
}

void ChooseReader(ReaderChoice choice) {
  ChoiceFile().Keep(kChoiceKey, choice == ReaderChoice::kBetter ? "better" : "shipped");
}

std::optional<DefaultReader> ChosenReaderFor(ReaderTask task) {
  const char* named = std::getenv("BANYAN_MODEL");
  const bool asked_for = named != nullptr && *named != '\0';
  if (asked_for || ChosenReader() != ReaderChoice::kBetter) return std::nullopt;
  return DefaultReader{kBetterModel, BetterAdapterFor(task)};
}

DefaultReader DefaultReaderFor(ReaderTask task) {
  const auto chosen = ChosenReaderFor(task);
  if (chosen && ShippedAdapter(chosen->adapter)) return *chosen;
  return {DefaultModel(), ""};
}

}  // namespace banyan
