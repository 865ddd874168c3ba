// Names of models on the Hugging Face hub, as `-m` takes them:
//   [hf:]OWNER/NAME[@REVISION][:QUANTISATION]   or   [hf:]OWNER/NAME[@REVISION]/FILE.gguf
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace banyan {

struct HubName {
  std::string repository;     // "OWNER/NAME"
  std::string revision;       // a branch, tag or commit; "main" where none is named
  std::string quantisation;   // "Q4_K_M", as it was typed; empty: none is named
  std::string file;           // path inside the repository; empty: none is named
  bool explicit_hub = false;  // "hf:": never a path of this machine
  bool revision_given = false;

  // The name without "hf:", for messages.
  std::string Text() const;
};

// Nothing when `name` does not have that form. Looks at no file.
std::optional<HubName> ParseHubName(std::string_view name);

// A path of a file list that may be written below a folder: relative, of plain names, without "..",
// "\", control characters, and of at most 512 bytes.
bool IsPlainPath(std::string_view path);

}  // namespace banyan
