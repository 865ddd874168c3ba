#include "formats/shipped_model.h"

#include <sys/auxv.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "base/error.h"
#include "formats/locate.h"
#include "program/models.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

std::string FileName() { return std::string(kShippedModel) + ".gguf"; }

}  // namespace

std::vector<fs::path> ShippedModelFolders(const fs::path& executable) {
  std::vector<fs::path> folders;
  // The Python package's command, whose program is Python.
  const char* of_package = std::getenv("BANYAN_MODELS");
  if (of_package != nullptr && *of_package != '\0') folders.emplace_back(of_package);
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
