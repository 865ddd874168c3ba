// The models on this machine, and what each is good for (program/models.h).
#include "program/models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "banyan/model.h"
#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "formats/file_headers.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "hub/hub.h"
#include "hub/hub_cache.h"
#include "hub/local_stores.h"
#include "hub/locate.h"
#include "load/fetch_model.h"
#include "load/model_parts.h"
#include "model/config.h"
#include "model/encoder_config.h"
#include "model/weight_scales.h"
#include "program/hub.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostConfigBytes = 16u << 20;

std::string ReadIfThere(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? ReadTextFile(path, kMostConfigBytes) : "";
}

// The line "license: …" of the YAML that a model card begins with, between two lines "---".
std::string LicenceOfCard(const std::string& card) {
  constexpr std::string_view kKey = "license:", kSpaces = " \t\r";
  std::istringstream lines(card);
  std::string line;
  const auto next = [&] {
    if (!std::getline(lines, line)) return false;
    line.erase(line.find_last_not_of(kSpaces) + 1);
    return true;
  };
  if (!next() || line != "---") return "";
  while (next() && line != "---") {
    if (!line.starts_with(kKey)) continue;
    const size_t value = line.find_first_not_of(kSpaces, kKey.size());
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

// Throws kUnsupported for a matrix of an element type that nothing here reads. Other tensors may be
// there for other programs.
void CheckMatrices(const TensorStore& tensors) {
  for (const std::string& name : tensors.Names()) {
    if (name.ends_with(".weight")) tensors.GetAnyShape(name);
  }
}

ModelUse UseOf(const EncoderConfig& config) {
  return config.reranks ? ModelUse::kRerank : ModelUse::kEmbed;
}

void ExamineGguf(const ModelFiles& files, KnownModel& model) {
  const GgufFile gguf(files.weights);
  model.family = gguf.metadata().FindString("general.architecture").value_or("");
  model.licence = gguf.metadata().FindString("general.license").value_or("");
  ModelUse use = ModelUse::kAsk;
  if (IsEncoderArchitecture(model.family)) {
    const EncoderConfig config = EncoderConfigFromGguf(gguf);
    model.family = config.family;
    use = UseOf(config);
  } else {
    model.family = ConfigFromGguf(gguf).family;
  }
  if (gguf.tensors().Empty()) Throw(ErrorKind::kFormat, "a vocabulary without tensors");
  CheckMatrices(gguf.tensors());
  if (!gguf.metadata().Has("tokenizer.ggml.tokens")) Throw(ErrorKind::kUnsupported, "no tokenizer");
  MakeText(Tokenizer::FromGguf(gguf));
  model.use = use;
}

void ExamineHuggingFace(const ModelFiles& files, KnownModel& model) {
  const std::string where = files.root.string();
  const std::string text = ReadTextFile(files.config, kMostConfigBytes);
  const Json config = ParseJson(text, files.config.string());
  if (config.is_object() && config.contains("model_type") && config["model_type"].is_string()) {
    model.family = config["model_type"].get<std::string>();
  }
  model.licence = LicenceOfCard(ReadIfThere(files.root / "README.md"));
  ModelUse use = ModelUse::kAsk;
  std::optional<WeightScales> scales;  // of a decoder
  if (IsEncoderFamily(model.family)) {
    use = UseOf(EncoderConfigFromHuggingFace(
        text, ReadIfThere(files.root / "1_Pooling" / "config.json"), where));
    const std::string modules = ReadIfThere(files.root / "modules.json");
    if (!modules.empty()) CheckSentenceModules(modules, where);
  } else {
    const std::string generation =
        files.generation_config ? ReadTextFile(*files.generation_config, kMostConfigBytes) : "";
    scales = ConfigFromHuggingFace(text, generation, where).scales;
  }
  TensorStore tensors = OpenSafetensors(files.weights);
  if (scales) FindScales(*scales, tensors);
  CheckMatrices(tensors);
  if (!files.tokenizer) Throw(ErrorKind::kUnsupported, "no tokenizer.json");
  MakeText(Tokenizer::FromHuggingFace(files.root));
  model.use = use;
}

// Whether all shards that an index names are there: a download may have ended early.
bool IsWhole(const ModelFiles& files) {
  if (files.weights.extension() != ".json") return true;
  const std::string index = ReadTextFile(files.weights, kMostConfigBytes);
  return std::ranges::all_of(ShardsOfIndex(index, files.weights.string()), [&](const auto& shard) {
    std::error_code none;
    return fs::is_regular_file(files.root / shard, none);
  });
}

// A model that `name` finds.
KnownModel Examine(std::string name, ModelPlace place) {
  KnownModel model;
  model.name = std::move(name);
  model.place = place;
  try {
    const ModelFiles files = LocateModel(model.name);
    model.path = files.root.string();
    for (const std::string& file : FilesOfModel(model.name)) {
      std::error_code ignored;
      const std::uintmax_t bytes = fs::file_size(file, ignored);
      if (!ignored) model.bytes += static_cast<std::int64_t>(bytes);
    }
    if (files.kind == ModelKind::kGguf) {
      ExamineGguf(files, model);
    } else {
      ExamineHuggingFace(files, model);
    }
  } catch (const Error& e) {
    model.refusal = e.what();
  }
  return model;
}

ModelPlace PlaceOf(LocalStore store) {
  switch (store) {
    case LocalStore::kOllama:
      return ModelPlace::kOllama;
    case LocalStore::kLmStudio:
      return ModelPlace::kLmStudio;
    case LocalStore::kLlamaCpp:
      break;
  }
  return ModelPlace::kLlamaCpp;
}

// Names of folders, sorted.
std::vector<std::string> FoldersIn(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::string PathOfModel(const std::string& model) { return LocateModel(model).root.string(); }

std::string PathOfAdapter(const std::string& adapter) {
  std::error_code none;
  if (fs::exists(adapter, none)) return adapter;
  if (const auto shipped = ShippedAdapter(adapter)) return shipped->string();
  const std::optional<HubName> name = FetchableHubName(adapter);
  const auto snapshot =
      name ? HubCache(name->repository).FindSnapshot(name->revision) : std::nullopt;
  const bool here = snapshot && fs::exists(*snapshot / "adapter_config.json", none);
  return here ? snapshot->string() : adapter;
}

bool MustBring(const std::string& model) {
  if (!FetchableHubName(model)) return false;
  try {
    return !IsWhole(LocateModel(model));
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::kNotFound) throw;
    return true;
  }
}

void BringModel(const std::string& model, const std::function<void(const std::string&)>& say,
                const FetchProgress& progress) {
  if (MustBring(model)) FetchFromHub(*ParseHubName(model), HubWhat::kModel, {say, progress});
}

void BringAdapter(const std::string& adapter, const std::function<void(const std::string&)>& say,
                  const FetchProgress& progress) {
  const std::optional<HubName> name = FetchableHubName(adapter);
  if (!name || PathOfAdapter(adapter) != adapter) return;
  FetchFromHub(*name, HubWhat::kAdapter, {say, progress});
}

std::int64_t RemoveModel(const std::string& name) {
  std::error_code none;
  if (name == kShippedModel) {
    Throw(ErrorKind::kUsage, "{}: comes with the program and stays", name);
  }
  if (IsStoreName(name)) {
    Throw(ErrorKind::kUsage,
          "{}: another program keeps it; remove it there ('ollama rm', LM "
          "Studio, llama.cpp)",
          name);
  }
  const bool plain = !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
  if (const fs::path folder = ModelCacheDirectory() / name;
      plain && fs::is_directory(folder, none)) {
    const std::int64_t bytes = BytesBelow(folder);
    fs::remove_all(folder, none);
    if (none) Throw(ErrorKind::kIo, "{}: cannot be removed: {}", folder.string(), none.message());
    return bytes;
  }
  const std::optional<HubName> hub = ParseHubName(name);
  if (!hub || (!hub->explicit_hub && fs::exists(name, none))) {
    Throw(ErrorKind::kUsage,
          "{}: expected a fetched model or one of the Hugging Face cache, as 'banyan model list' "
          "names them",
          name);
  }
  const HubCache cache(hub->repository);
  const bool part = !hub->file.empty() || !hub->quantisation.empty();
  if (!part && !hub->revision_given && fs::is_directory(cache.folder(), none)) {
    return cache.RemoveAll();
  }
  std::vector<std::string> files = FilesOfModel(name);  // throws kNotFound
  const fs::path snapshot = *cache.FindSnapshot(hub->revision);
  for (std::string& file : files) {
    file = fs::path(file).lexically_relative(snapshot).string();
  }
  return cache.RemoveFiles(snapshot, files);
}

KnownModel ExamineModel(const std::string& model) {
  LocateModel(model);
  return Examine(model, ModelPlace::kFetched);
}

std::vector<KnownModel> ListModels() {
  std::vector<KnownModel> models;
  if (ShippedModelFile()) models.push_back(Examine(kShippedModel, ModelPlace::kShipped));
  for (const std::string& name : FoldersIn(ModelCacheDirectory())) {
    // A fetch that is under way, or was killed.
    if (name.starts_with("fetch-")) continue;
    models.push_back(Examine(name, ModelPlace::kFetched));
  }
  const auto fetched_end = models.size();
  for (const std::string& repository : CachedRepositories()) {
    for (const std::string& name : NamesInCache(repository)) {
      models.push_back(Examine(name, ModelPlace::kHuggingFaceCache));
    }
  }
  for (const StoredModel& model : ModelsOfStores()) {
    models.push_back(Examine(model.name, PlaceOf(model.store)));
  }
  for (const std::string& name : FetchableModels()) {
    const auto here = std::find_if(
        models.begin(), models.begin() + static_cast<std::ptrdiff_t>(fetched_end),
        [&](const KnownModel& model) { return model.name == name && model.refusal.empty(); });
    if (here != models.begin() + static_cast<std::ptrdiff_t>(fetched_end)) continue;
    for (const FetchSource& source : kFetchSources) {
      if (name != source.name) continue;
      KnownModel model;
      model.name = name;
      model.place = ModelPlace::kFetchable;
      model.family = source.family;
      model.licence = source.licence;
      model.bytes = source.bytes;
      model.use = IsEncoderFamily(source.family) ? ModelUse::kEmbed : ModelUse::kAsk;
      models.push_back(std::move(model));
    }
  }
  return models;
}

}  // namespace banyan
