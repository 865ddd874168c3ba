#include "load/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>
#include <utility>

#include "base/error.h"

extern char** environ;

namespace banyan {
namespace {

constexpr int kTickMilliseconds = 200;

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

}  // namespace

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

}  // namespace banyan
