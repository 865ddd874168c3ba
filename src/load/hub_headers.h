// What the files of a model on the hub say of it, without its weights: small files whole, of large
// ones the headers, which range requests fetch. On the disk the rest is a hole.
#pragma once

#include <filesystem>

#include "hub/hub.h"

namespace banyan {

// Writes them below `folder`. The GGUF file, or the folder. Throws as FetchFromHub, and
// kUnsupported for a server without ranges.
std::filesystem::path FetchHeaders(const HubName& name, const HubRepository& repository,
                                   HubSelection selection, const HubListener& listener,
                                   const std::filesystem::path& folder);

}  // namespace banyan
