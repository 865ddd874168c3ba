// Where a model's files are: `-m NAME` → paths, and the models that ship with the program. Opens
// nothing but the reference file of the Hugging Face cache.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "hub/hub_name.h"

namespace banyan {

enum class ModelKind { kGguf, kHuggingFace };

// Optional paths are set when the file is there.
struct ModelFiles {
  ModelKind kind = ModelKind::kGguf;
  std::filesystem::path root;     // the GGUF file, or the directory
  std::filesystem::path weights;  // GGUF file, safetensors file or its index
  std::filesystem::path config;   // config.json; empty for GGUF
  std::optional<std::filesystem::path> generation_config;  // generation_config.json
  std::optional<std::filesystem::path> tokenizer;          // tokenizer.json
  std::optional<std::filesystem::path> tokenizer_config;   // tokenizer_config.json
  std::optional<std::filesystem::path> chat_template;      // chat_template.jinja
};

// Where fetched models are kept, a folder for each: CacheDirectory()/models.
std::filesystem::path ModelCacheDirectory();

// `name`: a GGUF file, a directory in the Hugging Face layout, a name in ModelCacheDirectory(), the
// shipped model's name, or a name of the hub (hub_name.h) that is in the local Hugging Face cache.
// Of several quantisations there, none of which is named, the best that fits. Throws kNotFound with
// a list of what was looked for and where.
ModelFiles LocateModel(const std::string& name);

// What `-m` takes of a cached repository: its name, or of several quantisations one name for each,
// "OWNER/NAME:Q4_K_M".
std::vector<std::string> NamesInCache(const std::string& repository);

// A name that the hub may have: nothing for what looks like a path of this machine.
std::optional<HubName> FetchableHubName(const std::string& name);

// Folders that may hold shipped models, for a program at `executable`: the first that has one
// counts. Does not look at the disk.
std::vector<std::filesystem::path> ShippedModelFolders(const std::filesystem::path& executable);

// The running program, or an empty path where the system does not say.
std::filesystem::path RunningProgram();

// The folder of an adapter that ships with the program, by its name; nothing when there is none.
std::optional<std::filesystem::path> ShippedAdapter(const std::string& name);

// The shipped model's file, if it is in one of the folders of the running program.
std::optional<std::filesystem::path> ShippedModelFile();

}  // namespace banyan
