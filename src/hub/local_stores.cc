// Ollama's manifests and blobs, LM Studio's folders, llama.cpp's cache.
#include "hub/local_stores.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "hub/hub_cache.h"
#include "hub/hub_name.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOllamaPrefix = "ollama:", kLmStudioPrefix = "lmstudio:",
                           kLlamaCppPrefix = "llamacpp:";
constexpr const char* kOllamaHost = "registry.ollama.ai";
constexpr size_t kMostManifestBytes = 1u << 20, kMostPointerBytes = 4096, kMostModels = 10'000;

bool IsThereAsFile(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

// Files below a folder, at most `depth` folders deep.
void ForEachFile(const fs::path& folder, int depth,
                 const std::function<void(const fs::path&)>& visit) {
  std::error_code gone;
  size_t seen = 0;
  fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, gone);
  for (const fs::recursive_directory_iterator end; !gone && it != end && seen < kMostModels;
       it.increment(gone), ++seen) {
    if (it.depth() >= depth) it.disable_recursion_pending();
    std::error_code unknown;
    if (it->is_regular_file(unknown)) visit(it->path());
  }
}

fs::path HomeFolder() { return EnvironmentText("HOME"); }

// The person's own, else the service's.
std::vector<fs::path> OllamaFolders() {
  if (const std::string set = EnvironmentText("OLLAMA_MODELS"); !set.empty()) return {set};
  return {HomeFolder() / ".ollama" / "models", "/usr/share/ollama/.ollama/models",
          "/var/lib/ollama/.ollama/models", "/var/lib/ollama/models"};
}

std::vector<fs::path> LmStudioFolders() {
  std::vector<fs::path> folders;
  const fs::path pointer = HomeFolder() / ".lmstudio-home-pointer";
  if (IsThereAsFile(pointer)) {
    std::string home = ReadTextFile(pointer, kMostPointerBytes);
    home.erase(home.find_last_not_of(" \r\n") + 1);
    if (!home.empty()) folders.push_back(fs::path(home) / "models");
  }
  folders.push_back(HomeFolder() / ".lmstudio" / "models");
  folders.push_back(HomeFolder() / ".cache" / "lm-studio" / "models");
  return folders;
}

std::vector<fs::path> LlamaCppFolders() {
  if (const std::string set = EnvironmentText("LLAMA_CACHE"); !set.empty()) return {set};
  const std::string xdg = EnvironmentText("XDG_CACHE_HOME");
  return {(xdg.empty() ? HomeFolder() / ".cache" : fs::path(xdg)) / "llama.cpp"};
}

// manifests/HOST/library/NAME/TAG → "NAME:TAG"; of other owners and hosts "HOST/OWNER/NAME:TAG".
std::string OllamaNameOf(const fs::path& below_manifests) {
  std::vector<std::string> parts;
  for (const fs::path& part : below_manifests) parts.push_back(part.string());
  if (parts.size() != 4) return "";
  std::string name = parts[2] + ":" + parts[3];
  if (parts[1] != "library") name = parts[1] + "/" + name;
  if (parts[0] != kOllamaHost) name = parts[0] + "/" + name;
  return name;
}

// The other way round; empty for what is no name.
fs::path ManifestOf(std::string name) {
  const size_t colon = name.rfind(':');
  std::string tag = "latest";
  if (colon != std::string::npos && name.find('/', colon) == std::string::npos) {
    tag = name.substr(colon + 1);
    name.erase(colon);
  }
  const auto slashes = std::ranges::count(name, '/');
  if (slashes == 0) name = "library/" + name;
  if (slashes <= 1) name = std::string(kOllamaHost) + "/" + name;
  const std::string path = name + "/" + tag;
  return IsPlainPath(path) && std::ranges::count(path, '/') == 3 ? fs::path(path) : fs::path();
}

fs::path WeightsOf(const fs::path& folder, const fs::path& manifest) {
  const std::string digest =
      DigestOfManifest(ReadTextFile(manifest, kMostManifestBytes), manifest.string());
  const fs::path blob = folder / "blobs" / ("sha256-" + digest);
  if (IsThereAsFile(blob)) return blob;
  Throw(ErrorKind::kNotFound, "{}: its weights are not in {}: pull the model again",
        manifest.string(), (folder / "blobs").string());
}

// A first or only part: "x.gguf", "x-00001-of-00003.gguf".
bool IsModelFile(const fs::path& path) {
  const std::string name = path.filename().string();
  const bool later =
      name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
  return path.extension() == ".gguf" && !later && name.find("mmproj") == std::string::npos;
}

void AddFolder(const fs::path& folder, int depth, std::string_view prefix, LocalStore store,
               std::vector<StoredModel>& models) {
  ForEachFile(folder, depth, [&](const fs::path& path) {
    if (!IsModelFile(path)) return;
    const std::string name = std::string(prefix) + path.lexically_relative(folder).string();
    if (std::ranges::count(models, name, &StoredModel::name) == 0) {
      models.push_back({name, store, path});
    }
  });
}

std::optional<StoredModel> FindInFolders(const std::vector<fs::path>& folders, LocalStore store,
                                         std::string_view prefix, const std::string& name) {
  const std::string path = name.substr(prefix.size());
  if (!IsPlainPath(path) || !path.ends_with(".gguf")) return std::nullopt;
  for (const fs::path& folder : folders) {
    if (IsThereAsFile(folder / path)) return StoredModel{name, store, folder / path};
  }
  return std::nullopt;
}

}  // namespace

std::string DigestOfManifest(std::string_view text, const std::string& where) {
  constexpr std::string_view kSha256 = "sha256:";
  const Json json = ParseJson(text, where);
  const auto layers = json.is_object() ? json.find("layers") : json.end();
  if (layers == json.end() || !layers->is_array()) {
    Throw(ErrorKind::kFormat, "{}: expected an Ollama manifest with 'layers'", where);
  }
  std::string digest;
  for (const Json& layer : *layers) {
    const auto type = layer.is_object() ? layer.find("mediaType") : layer.end();
    if (type == layer.end() || !type->is_string()) continue;
    const auto& kind = type->get_ref<const std::string&>();
    if (kind == "application/vnd.ollama.image.adapter") {
      Throw(ErrorKind::kUnsupported, "{}: a model with an adapter in GGUF, which is not read",
            where);
    }
    if (kind != "application/vnd.ollama.image.model") continue;
    const auto found = layer.find("digest");
    const std::string name =
        found != layer.end() && found->is_string() ? found->get<std::string>() : "";
    const bool valid = name.size() == kSha256.size() + 64 && name.starts_with(kSha256) &&
                       name.find_first_not_of("0123456789abcdef", kSha256.size()) == name.npos;
    if (!valid) Throw(ErrorKind::kFormat, "{}: expected a digest sha256:HEX of the model", where);
    if (!digest.empty()) {
      Throw(ErrorKind::kUnsupported, "{}: a model in several files, which is not read", where);
    }
    digest = name.substr(kSha256.size());
  }
  if (digest.empty()) Throw(ErrorKind::kFormat, "{}: names no model", where);
  return digest;
}

bool IsStoreName(std::string_view name) {
  return name.starts_with(kOllamaPrefix) || name.starts_with(kLmStudioPrefix) ||
         name.starts_with(kLlamaCppPrefix);
}

std::optional<StoredModel> FindStored(const std::string& name) {
  if (name.starts_with(kLmStudioPrefix)) {
    return FindInFolders(LmStudioFolders(), LocalStore::kLmStudio, kLmStudioPrefix, name);
  }
  if (name.starts_with(kLlamaCppPrefix)) {
    return FindInFolders(LlamaCppFolders(), LocalStore::kLlamaCpp, kLlamaCppPrefix, name);
  }
  if (!name.starts_with(kOllamaPrefix)) return std::nullopt;
  const fs::path path = ManifestOf(name.substr(kOllamaPrefix.size()));
  if (path.empty()) return std::nullopt;
  for (const fs::path& folder : OllamaFolders()) {
    const fs::path manifest = folder / "manifests" / path;
    if (IsThereAsFile(manifest)) {
      return StoredModel{name, LocalStore::kOllama, WeightsOf(folder, manifest)};
    }
  }
  return std::nullopt;
}

std::vector<StoredModel> ModelsOfStores() {
  constexpr int kManifestDepth = 4, kFolderDepth = 4;
  std::vector<StoredModel> models;
  for (const fs::path& folder : OllamaFolders()) {
    ForEachFile(folder / "manifests", kManifestDepth, [&](const fs::path& manifest) {
      const std::string found = OllamaNameOf(manifest.lexically_relative(folder / "manifests"));
      const std::string name = std::string(kOllamaPrefix) + found;
      if (found.empty() || std::ranges::count(models, name, &StoredModel::name) > 0) return;
      try {
        models.push_back({name, LocalStore::kOllama, WeightsOf(folder, manifest)});
      } catch (const Error&) {  // still being pulled, damaged, or with an adapter
      }
    });
  }
  for (const fs::path& folder : LmStudioFolders()) {
    AddFolder(folder, kFolderDepth, kLmStudioPrefix, LocalStore::kLmStudio, models);
  }
  for (const fs::path& folder : LlamaCppFolders()) {
    AddFolder(folder, 1, kLlamaCppPrefix, LocalStore::kLlamaCpp, models);
  }
  std::ranges::sort(models, {}, &StoredModel::name);
  return models;
}

}  // namespace banyan
