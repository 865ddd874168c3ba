// Which model and adapter do a task, and the readers that can be fetched: what the cards of the
// adapters say that ship with the program (program/models.h).
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/decision_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/machine_limits.h"
#include "hub/locate.h"
#include "kernels/kernels.h"
#include "load/fetch_model.h"
#include "load/model_card.h"
#include "model/json_fields.h"
#include "program/models.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChoiceKey = "reader";
constexpr const char* kShippedChoice = "shipped";
constexpr std::array<std::string_view, 3> kSizes = {"small", "medium", "large"};
constexpr std::array<std::pair<std::string_view, ReaderTask>, 3> kTasks = {
    {{"ask", ReaderTask::kAsk}, {"extract", ReaderTask::kExtract}, {"rag", ReaderTask::kRag}}};

// Of the shipped model: everyday questions right (docs/results.md), parameters.
constexpr int kShippedRight = 68, kShippedQuestions = 100;
constexpr std::int64_t kShippedParameters = 33'900'000;

// Weights with an adapter are numbers of 16 bits; what a program and a few pages take beside them.
constexpr std::int64_t kWeightBytes = 2, kOtherBytes = 64 << 20;

// What the card of a shipped adapter says of its use.
struct AdapterUse {
  std::string name;   // the adapter's
  std::string model;  // that it is for
  std::vector<ReaderTask> tasks;
  std::string size;  // empty: no offer is named after it
  int right = 0, questions = 0;
};

std::vector<ReaderTask> ReadTasks(const JsonFields& fields) {
  const Json* named = fields.Find("tasks");
  std::vector<ReaderTask> tasks;
  if (named == nullptr) return tasks;
  if (!named->is_array()) fields.WrongType("tasks", *named, "a list");
  for (const Json& task : *named) {
    for (const auto& [name, known] : kTasks) {
      if (task.is_string() && task.get<std::string>() == name) tasks.push_back(known);
    }
  }
  return tasks;
}

// Nothing for an adapter whose card does not say what it is for.
std::optional<AdapterUse> UseOfAdapter(const fs::path& folder) {
  const fs::path file = folder / kModelCardFile;
  std::error_code none;
  if (!fs::is_regular_file(file, none)) return std::nullopt;
  const Json json = ParseJson(ReadTextFile(file, kMostCardBytes), file.string());
  const JsonFields card(json, file.string());
  const Json* reader = card.Find("reader");
  const std::optional<std::string> model = card.FindString("model");
  if (reader == nullptr || !model) return std::nullopt;
  const JsonFields fields(*reader, file.string() + ": 'reader'");
  AdapterUse use;
  use.name = folder.filename().string();
  use.model = *model;
  use.tasks = ReadTasks(fields);
  use.size = fields.FindString("size").value_or("");
  use.right = static_cast<int>(fields.FindInt("right").value_or(0));
  use.questions = static_cast<int>(fields.FindInt("questions").value_or(0));
  return use;
}

// By name; the folder that counts for a name is the first that has it.
std::vector<AdapterUse> ShippedAdapterUses() {
  std::vector<AdapterUse> uses;
  for (const fs::path& folder : ShippedModelFolders(RunningProgram())) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename().string();
      const bool known = std::ranges::count(uses, name, &AdapterUse::name) > 0;
      if (known || ShippedAdapter(name) != entry.path()) continue;
      if (std::optional<AdapterUse> use = UseOfAdapter(entry.path())) uses.push_back(*use);
    }
  }
  std::ranges::sort(uses, {}, &AdapterUse::name);
  return uses;
}

// Whether `model`, as -m takes it, is the fetched model of that name.
bool IsFetched(const std::string& model, const std::string& name) {
  if (model == name) return true;
  std::error_code none;
  const fs::path folder = ModelCacheDirectory() / name;
  return fs::equivalent(model, folder, none) ||
         fs::equivalent(fs::path(model).parent_path(), folder, none);
}

std::string AdapterOf(const std::string& model, ReaderTask task) {
  for (const AdapterUse& use : ShippedAdapterUses()) {
    if (std::ranges::count(use.tasks, task) > 0 && IsFetched(model, use.model)) return use.name;
  }
  return "";
}

// The model that a shipped adapter is for; empty: its card does not say.
std::string ModelOf(const std::string& adapter) {
  for (const AdapterUse& use : ShippedAdapterUses()) {
    if (use.name == adapter) return use.model;
  }
  return "";
}

bool IsHere(const std::string& model) {
  std::error_code none;
  return fs::is_directory(ModelCacheDirectory() / model, none);
}

DecisionFile ChoiceFile() {
  const fs::path cache = CacheDirectory();
  return cache.empty() ? DecisionFile() : DecisionFile(cache / "reader.txt", "the reader 1");
}

std::optional<ReaderOffer> ChosenOffer() {
  const char* named = std::getenv("BANYAN_MODEL");
  if (named != nullptr && *named != '\0') return std::nullopt;
  const std::string chosen = ChosenReader();
  for (const ReaderOffer& offer : ReaderOffers()) {
    if (offer.size == chosen) return offer;
  }
  return std::nullopt;
}

}  // namespace

std::vector<ReaderOffer> ReaderOffers() {
  const std::vector<AdapterUse> uses = ShippedAdapterUses();
  std::vector<ReaderOffer> offers;
  for (const std::string_view size : kSizes) {
    const auto named = std::ranges::find(uses, size, &AdapterUse::size);
    if (named == uses.end()) continue;
    for (const FetchSource& source : kFetchSources) {
      if (named->model != source.name) continue;
      ReaderOffer offer{.size = std::string(size),
                        .model = source.name,
                        .adapters = {},
                        .licence = source.licence,
                        .sha256 = source.sha256,
                        .bytes = source.bytes,
                        .download = source.package_bytes(),
                        .memory = source.parameters * kWeightBytes + kOtherBytes,
                        .parameters = source.parameters,
                        .right = named->right,
                        .questions = named->questions};
      offer.fits = offer.memory <= UsableMemory();
      for (const AdapterUse& use : uses) {
        if (use.model != source.name) continue;
        for (const ReaderTask task : use.tasks) offer.adapters.emplace(task, use.name);
      }
      offers.push_back(std::move(offer));
    }
  }
  return offers;
}

ReaderOffer ShippedReader() {
  ReaderOffer reader;
  reader.size = kShippedChoice;
  reader.model = kShippedModel;
  reader.parameters = kShippedParameters;
  reader.memory = kShippedParameters + kOtherBytes;
  reader.right = kShippedRight;
  reader.questions = kShippedQuestions;
  return reader;
}

std::pair<double, double> ShareInterval(int right, int questions) {
  if (questions <= 0) return {0.0, 1.0};
  constexpr double kZ = 1.959964;
  const double n = questions, share = right / n, z2 = kZ * kZ;
  const double middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kZ / (1 + z2 / n) * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {std::max(middle - half, 0.0), std::min(middle + half, 1.0)};
}

double PredictedAnswersPerSecond(std::int64_t parameters) {
  // A fifth of the page, the question, and the answer; each is two operations a weight. A prompt's
  // weights are read once for many rows, so that reading them does not count.
  constexpr double kTokens = 400.0 / 5 + 25 + 6;
  static const double flops = MakeKernels("cpu", {})->MeasureRates().flops_per_second;
  return flops / (2.0 * static_cast<double>(parameters) * kTokens);
}

std::string ChosenReader() {
  const std::string kept = ChoiceFile().Find(kChoiceKey).value_or("");
  // What there was before there were sizes.
  const std::string size = kept == "better" ? std::string(kSizes.front()) : kept;
  if (size == kShippedChoice) return size;
  for (const ReaderOffer& offer : ReaderOffers()) {
    if (offer.size == size && IsHere(offer.model)) return size;
  }
  return "";
}

void ChooseReader(const std::string& size) { ChoiceFile().Keep(kChoiceKey, size); }

DefaultReader ReaderFor(ReaderTask task, const std::string& model, const std::string& adapter) {
  if (adapter == kNoAdapter) return {model.empty() ? ReaderFor(task).model : model, ""};
  if (!adapter.empty()) {
    std::string its_model = model.empty() ? ModelOf(adapter) : model;
    return {its_model.empty() ? DefaultModel() : std::move(its_model), adapter};
  }
  if (!model.empty()) return {model, AdapterOf(model, task)};
  if (const std::optional<ReaderOffer> offer = ChosenOffer()) {
    const auto found = offer->adapters.find(task);
    if (found != offer->adapters.end()) return {offer->model, found->second};
  }
  const std::string default_model = DefaultModel();
  return {default_model, AdapterOf(default_model, task)};
}

}  // namespace banyan
