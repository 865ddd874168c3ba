// Resolving model names: files, folders, caches and the shipped models.
#include "formats/locate.h"

#include <sys/auxv.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "program/models.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxReferenceBytes = 4096;

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

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "org/name" → "models--org--name"; empty when `name` cannot be a name of the hub.
std::string CacheFolder(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.front() == '.' || name.back() == '/' ||
      std::ranges::count(name, '/') > 1) {
    return "";
  }
  std::string folder = "models--";
  for (const char c : name) {
    if (c == '/') {
      folder += "--";
    } else {
      folder += c;
    }
  }
  return folder;
}

// What refs/main of a cached model says, or the only snapshot when there is no reference.
fs::path SnapshotOf(const fs::path& cached) {
  const fs::path reference = cached / "refs" / "main";
  if (IsFile(reference)) {
    std::string hash = ReadTextFile(reference, kMaxReferenceBytes);
    while (!hash.empty() && (hash.back() == '\n' || hash.back() == ' ')) hash.pop_back();
    if (hash.empty() || hash.find('/') != std::string::npos || hash.front() == '.') {
      Throw(ErrorKind::kFormat, "{}: expected a commit hash", reference.string());
    }
    return cached / "snapshots" / hash;
  }
  std::vector<fs::path> snapshots;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(cached / "snapshots", ignored)) {
    snapshots.push_back(entry.path());
  }
  if (snapshots.size() != 1) {
    Throw(ErrorKind::kNotFound, "{}: no refs/main, and {} snapshots where one was expected",
          cached.string(), snapshots.size());
  }
  return snapshots.front();
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

// A repository in the Hugging Face layout, or one with GGUF files alone: those are mostly the same
// model in several types, so only one of them is unambiguous. Parts of a split one count by the
// first.
ModelFiles FilesOfSnapshot(const fs::path& snapshot) {
  const bool safetensors =
      IsFile(snapshot / "model.safetensors") || IsFile(snapshot / "model.safetensors.index.json");
  if (IsFile(snapshot / "config.json") && safetensors) return FilesOfDirectory(snapshot);
  std::vector<fs::path> models;
  for (const auto& entry : fs::directory_iterator(snapshot)) {
    const std::string name = entry.path().filename().string();
    const bool later_part =
        name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (entry.path().extension() == ".gguf" && !later_part) models.push_back(entry.path());
  }
  if (models.empty()) return FilesOfDirectory(snapshot);
  if (models.size() == 1) return FilesOfGguf(models.front());
  std::ranges::sort(models);
  std::string names;
  for (const fs::path& model : models) names += "\n  " + model.string();
  Throw(ErrorKind::kNotFound, "{} GGUF files: expected the path of one of them:{}", models.size(),
        names);
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

fs::path HuggingFaceCacheDirectory() {
  if (const std::string hub = Environment("HF_HUB_CACHE"); !hub.empty()) return hub;
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string xdg = Environment("XDG_CACHE_HOME"); !xdg.empty()) {
    return fs::path(xdg) / "huggingface" / "hub";
  }
  return fs::path(Environment("HOME")) / ".cache" / "huggingface" / "hub";
}

ModelFiles LocateModel(const std::string& name) {
  const fs::path path(name);
  if (IsFile(path)) {
    if (path.extension() != ".gguf") {
      Throw(ErrorKind::kUsage, "{}: expected a .gguf file, a directory, or a model name", name);
    }
    return FilesOfGguf(path);
  }
  if (IsDirectory(path)) return FilesOfDirectory(path);
  const bool plain_name = !name.empty() && name.find('/') == std::string::npos && name[0] != '.';
  if (plain_name && IsDirectory(ModelCacheDirectory() / name)) {
    return FilesOfCached(ModelCacheDirectory() / name);
  }
  if (name == kShippedModel) {
    if (const auto shipped = ShippedModelFile()) return FilesOfGguf(*shipped);
  }

  std::string searched = fmt::format("no file or directory '{}'", name);
  if (const std::string folder = CacheFolder(name);
      !folder.empty() && path.extension() != ".gguf") {
    const fs::path cached = HuggingFaceCacheDirectory() / folder;
    if (IsDirectory(cached)) {
      const fs::path snapshot = SnapshotOf(cached);
      if (IsDirectory(snapshot)) return FilesOfSnapshot(snapshot);
      searched += fmt::format(", no snapshot '{}'", snapshot.string());
    } else {
      searched += fmt::format(", no '{}' in the Hugging Face cache", cached.string());
    }
  }
  Throw(ErrorKind::kNotFound, "model '{}' not found: {}", name, searched);
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
