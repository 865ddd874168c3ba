// GGUF models that other programs keep on this machine, by names of our own: "ollama:qwen3:4b",
// "lmstudio:PUBLISHER/REPOSITORY/FILE.gguf", "llamacpp:FILE.gguf". Nothing there is ever written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

enum class LocalStore { kOllama, kLmStudio, kLlamaCpp };

struct StoredModel {
  std::string name;
  LocalStore store = LocalStore::kOllama;
  std::filesystem::path file;
};

// What all three stores have, sorted by name. What cannot be read is left out.
std::vector<StoredModel> ModelsOfStores();

// Whether a name begins as those of a store do.
bool IsStoreName(std::string_view name);

// The model of such a name; "ollama:qwen3" is "ollama:qwen3:latest". Nothing when there is none;
// throws kFormat for a damaged manifest, kUnsupported for a model that needs an adapter.
std::optional<StoredModel> FindStored(const std::string& name);

// The digest of the weights, 64 hexadecimal digits, that an Ollama manifest names. Throws kFormat,
// and kUnsupported for a model with an adapter or in several files.
std::string DigestOfManifest(std::string_view json, const std::string& where);

}  // namespace banyan
