// Models and adapters of the Hugging Face hub: which files they are, and fetching these into the
// cache that other tools share. Nothing that is fetched is ever run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "hub/download.h"
#include "hub/file_list.h"
#include "hub/hub_name.h"

namespace banyan {

struct HubSettings {
  std::string endpoint = "https://huggingface.co";  // HF_ENDPOINT
  std::string token;     // HF_TOKEN, else the file that HF_TOKEN_PATH names or HF_HOME/token
  bool offline = false;  // HF_HUB_OFFLINE
};

// What the environment says. Throws kUsage for an HF_ENDPOINT that is no address.
HubSettings HubSettingsHere();

struct HubListener {
  std::function<void(const std::string&)> say;               // lines for a person
  std::function<void(std::int64_t, std::int64_t)> progress;  // bytes of all files: there, in all
};

enum class HubWhat { kModel, kAdapter };

// The files of a repository that are the model or the adapter, and why these.
struct HubSelection {
  std::vector<HubFile> files;  // small ones first
  std::string main_file;       // the GGUF file that is opened; empty: the folder is
  std::string reason;    // "Q4_K_M (2.5 GB), the best that fits …"; empty: there was no choice
  bool sharded = false;  // the weights are those that the index names: AddShards
};

// `memory`: bytes that this machine has. Throws kNotFound where nothing can be read, with what
// there is instead, and kLimit where nothing fits.
HubSelection SelectFiles(const HubRepository& repository, const HubName& name, HubWhat what,
                         std::int64_t memory);
// Adds the shards that the text of model.safetensors.index.json names. Throws kFormat.
void AddShards(const HubRepository& repository, const std::string& index, HubSelection& selection);

// The path of a file of a commit, for transfers.
std::string FileAddress(const HubSettings& settings, const std::string& repository,
                        const std::string& commit, const std::string& path);
TransferSettings TransfersOf(const HubSettings& settings, const HubListener& listener);

// Asks the hub. Throws kNotFound, kIo and kFormat with one sentence that says what to do.
HubRepository ListRepository(const HubName& name, const HubSettings& settings,
                             const HubListener& listener);

// Fetches what is missing, and the newest commit where the name has no revision. The folder of the
// snapshot, or the GGUF file.
std::filesystem::path FetchFromHub(const HubName& name, HubWhat what, const HubListener& listener);

}  // namespace banyan
