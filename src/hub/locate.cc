// Resolving model names: files, folders, caches and the shipped models.
#include "hub/locate.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/machine_limits.h"
#include "hub/choice.h"
#include "hub/hub_cache.h"
#include "hub/local_stores.h"
#include "program/models.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool IsDirectory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::optional<fs::path> IfFile(const fs::path& path) {
  if (!IsFile(path)) return std::nullopt;
  return path;
}

ModelFiles FilesOfDirectory(const fs::path& root) {
  ModelFiles files;
  files.kind = ModelKind::kHuggingFace;
  files.root = root;
  files.config = root / "config.json";
  if (!IsFile(files.config)) {
    Throw(ErrorKind::kNotFound, "{}: not a model directory: no config.json", root.string());
  }
  const fs::path index = root / "model.safetensors.index.json";
  const fs::path single = root / "model.safetensors";
  files.weights = IsFile(index) ? index : single;
  if (!IsFile(files.weights)) {
    const bool pickled =
        IsFile(root / "pytorch_model.bin") || IsFile(root / "pytorch_model.bin.index.json");
    Throw(ErrorKind::kNotFound,
          "{}: no weights: expected model.safetensors or model.safetensors.index.json{}",
          root.string(), pickled ? "; pytorch_model.bin is not read, convert it" : "");
  }
  files.generation_config = IfFile(root / "generation_config.json");
  files.tokenizer = IfFile(root / "tokenizer.json");
  files.tokenizer_config = IfFile(root / "tokenizer_config.json");
  files.chat_template = IfFile(root / "chat_template.jinja");
  return files;
}

ModelFiles FilesOfGguf(const fs::path& path) {
  ModelFiles files;
  files.kind = ModelKind::kGguf;
  files.root = path;
  files.weights = path;
  return files;
}

// A folder of the model cache holds one GGUF file or a Hugging Face directory.
ModelFiles FilesOfCached(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") return FilesOfGguf(entry.path());
  }
  return FilesOfDirectory(folder);
}

bool HasSafetensors(const fs::path& folder) {
  return IsFile(folder / "config.json") &&
         (IsFile(folder / "model.safetensors") || IsFile(folder / "model.safetensors.index.json"));
}

// GGUF files of a snapshot as its list would name them.
std::vector<HubFile> GgufFilesIn(const fs::path& snapshot) {
  constexpr int kMostDepth = 3;
  std::vector<HubFile> files;
  std::error_code gone;
  for (fs::recursive_directory_iterator it(snapshot, gone), end; !gone && it != end;
       it.increment(gone)) {
    if (it.depth() >= kMostDepth) it.disable_recursion_pending();
    std::error_code unknown;
    if (it->path().extension() != ".gguf" || !it->is_regular_file(unknown)) continue;
    HubFile file;
    file.path = it->path().lexically_relative(snapshot).string();
    file.bytes = static_cast<std::int64_t>(it->file_size(unknown));
    files.push_back(std::move(file));
  }
  return files;
}

// A repository in the Hugging Face layout, or one with GGUF files, which are mostly the same model
// in several quantisations: the named one, or the best that fits this machine's memory, or where
// none does the smallest.
ModelFiles FilesOfSnapshot(const fs::path& snapshot, const HubName& name) {
  if (!name.file.empty()) {
    if (IsFile(snapshot / name.file)) return FilesOfGguf(snapshot / name.file);
    Throw(ErrorKind::kNotFound, "model '{}' not found: no file '{}'", name.Text(),
          (snapshot / name.file).string());
  }
  const std::vector<GgufChoice> choices = GgufChoices(GgufFilesIn(snapshot));
  if (!name.quantisation.empty()) {
    const GgufChoice* named = NamedChoice(choices, name.quantisation);
    if (named != nullptr) return FilesOfGguf(snapshot / named->files.front());
    Throw(ErrorKind::kNotFound, "model '{}' not found: '{}' has {}", name.Text(), snapshot.string(),
          choices.empty() ? "no GGUF files" : DescribeChoices(choices));
  }
  if (choices.empty() || HasSafetensors(snapshot)) {
    return FilesOfDirectory(snapshot);
  }
  const GgufChoice* best = BestChoice(choices, UsableMemory());
  if (best == nullptr) best = &choices.back();
  return FilesOfGguf(snapshot / best->files.front());
}

// What `name` is in the hub's cache: there, repositories of old have no owner.
std::optional<HubName> CachedName(const std::string& name) {
  if (std::optional<HubName> hub = ParseHubName(name)) return hub;
  const bool alone = !name.empty() && name.front() != '.' && !name.ends_with(".gguf") &&
                     name.find_first_of("/:@") == std::string::npos;
  if (!alone) return std::nullopt;
  HubName old;
  old.repository = name;
  old.revision = "main";
  return old;
}

std::string FileName() { return std::string(kShippedModel) + ".gguf"; }

// What ShipModelsFrom was told.
std::vector<fs::path>& FoldersOfPackages() {
  static std::vector<fs::path> folders;
  return folders;
}

}  // namespace

fs::path ModelCacheDirectory() {
  const fs::path cache = CacheDirectory();
  return (cache.empty() ? fs::path(".cache") / "banyan" : cache) / "models";
}

ModelFiles LocateModel(const std::string& name) {
  const fs::path path(name);
  const bool of_hub = name.starts_with("hf:");
  if (!of_hub && IsFile(path)) {
    if (path.extension() != ".gguf") {
      Throw(ErrorKind::kUsage, "{}: expected a .gguf file, a directory, or a model name", name);
    }
    return FilesOfGguf(path);
  }
  if (!of_hub && IsDirectory(path)) return FilesOfDirectory(path);
  const bool plain_name = !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
  if (plain_name && IsDirectory(ModelCacheDirectory() / name)) {
    return FilesOfCached(ModelCacheDirectory() / name);
  }
  if (IsStoreName(name)) {
    if (const auto stored = FindStored(name)) return FilesOfGguf(stored->file);
    Throw(ErrorKind::kNotFound,
          "model '{}' not found: 'banyan model list' shows what other "
          "programs' stores have",
          name);
  }
  if (name == kShippedModel) {
    if (const auto shipped = ShippedModelFile()) return FilesOfGguf(*shipped);
  }

  std::string searched = fmt::format("no file or directory '{}'", name);
  if (const std::optional<HubName> hub = CachedName(name)) {
    const HubCache cache(hub->repository);
    if (const auto snapshot = cache.FindSnapshot(hub->revision)) {
      return FilesOfSnapshot(*snapshot, *hub);
    }
    searched +=
        IsDirectory(cache.folder())
            ? fmt::format(", no snapshot of '{}' in '{}'", hub->revision, cache.folder().string())
            : fmt::format(", no '{}' in the Hugging Face cache", cache.folder().string());
  }
  Throw(ErrorKind::kNotFound, "model '{}' not found: {}", name, searched);
}

std::vector<std::string> NamesInCache(const std::string& repository) {
  std::vector<std::string> names;
  if (const auto snapshot = HubCache(repository).FindSnapshot("main")) {
    for (const GgufChoice& choice : GgufChoices(GgufFilesIn(*snapshot))) {
      if (!choice.whole) continue;
      names.push_back(choice.quantisation.empty() ? repository + "/" + choice.files.front()
                                                  : repository + ":" + choice.quantisation);
    }
    if (HasSafetensors(*snapshot)) names.push_back(repository);
  }
  if (names.size() <= 1) return {repository};
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::optional<HubName> FetchableHubName(const std::string& name) {
  const std::optional<HubName> hub = ParseHubName(name);
  if (!hub || hub->explicit_hub) return hub;
  // "models/reader" where there is a folder "models" is a path that was mistyped.
  const fs::path path(name);
  std::error_code none;
  if (fs::exists(path, none) || IsDirectory(*path.begin())) return std::nullopt;
  return hub;
}

void ShipModelsFrom(const std::vector<std::string>& folders) {
  FoldersOfPackages().assign(folders.begin(), folders.end());
}

std::vector<fs::path> ShippedModelFolders(const fs::path& executable) {
  std::vector<fs::path> folders = FoldersOfPackages();
  const fs::path folder = executable.parent_path();
  if (folder.filename() == "bin") {
    folders.push_back(folder.parent_path() / "share" / "banyan" / "models");
  }
  // build/release/banyan of a checkout.
  if (folder.parent_path().filename() == "build") {
    folders.push_back(folder.parent_path().parent_path() / "models");
  }
  const fs::path configured = fs::path(BANYAN_DATA_DIRECTORY) / "models";
  if (folders.empty() || folders.front() != configured) folders.push_back(configured);
  return folders;
}

fs::path RunningProgram() {
  std::error_code unknown;
  fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  if (!unknown) return program;
  // Without /proc: what the program was started as, links followed.
  const auto started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (started_as == nullptr) return {};
  program = fs::canonical(started_as, unknown);
  return unknown ? fs::path() : program;
}

std::optional<fs::path> ShippedModelFile() {
  for (const fs::path& folder : ShippedModelFolders(RunningProgram())) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / FileName(), ignored)) return folder / FileName();
  }
  return std::nullopt;
}

std::optional<fs::path> ShippedAdapter(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return std::nullopt;
  for (const fs::path& folder : ShippedModelFolders(RunningProgram())) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name / "adapter_config.json", ignored)) return folder / name;
  }
  return std::nullopt;
}

std::string DefaultModel() {
  const char* wanted = std::getenv("BANYAN_MODEL");
  if (wanted != nullptr && *wanted != '\0') {
    try {
      LocateModel(wanted);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::kNotFound && FetchableHubName(wanted)) return wanted;
      Throw(e.kind(), "BANYAN_MODEL: {}", e.what());
    }
    return wanted;
  }
  if (const auto shipped = ShippedModelFile()) return shipped->string();
  std::string folders;
  for (const fs::path& folder : ShippedModelFolders(RunningProgram())) {
    folders += (folders.empty() ? "" : ", ") + folder.string();
  }
  Throw(ErrorKind::kNotFound,
        "no model: expected -m MODEL, or BANYAN_MODEL in the environment, or the shipped {}, which "
        "is in none of these folders: {}",
        FileName(), folders);
}

}  // namespace banyan
