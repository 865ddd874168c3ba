// PDF → text, by poppler's program: the file goes in through a temporary file without a name, the
// text comes out through a pipe. No shell, no name of the user's in any argument.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <semaphore>
#include <thread>

#include "base/error.h"
#include "base/work_budget.h"
#include "documents/document_text.h"

namespace banyan {
namespace {

// Of one converter: a PDF of a few kilobytes may ask for any amount of work.
constexpr rlim_t kMostSeconds = 60, kMostMemory = rlim_t{1} << 30;
constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

void CheckWanted(const std::atomic<bool>* cancelled) {
  if (cancelled != nullptr && *cancelled) throw WorkStopped(WorkStopped::Why::kUnwanted);
  CheckBudget();
}

// As many converters run at once as there are processors; others wait here.
class ConverterPlace {
 public:
  explicit ConverterPlace(const std::atomic<bool>* cancelled) {
    while (!places().try_acquire_for(kBetweenLooks)) CheckWanted(cancelled);
  }
  ~ConverterPlace() { places().release(); }
  ConverterPlace(const ConverterPlace&) = delete;
  ConverterPlace& operator=(const ConverterPlace&) = delete;

 private:
  static std::counting_semaphore<>& places() {
    static std::counting_semaphore<> all(std::max(1u, std::thread::hardware_concurrency()));
    return all;
  }
};

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

void WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) Throw(ErrorKind::kIo, "cannot keep the PDF in memory: {}", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
}

// Everything that comes through the pipe.
std::string ReadPipe(int fd, size_t max_bytes, const std::atomic<bool>* cancelled) {
  std::string text;
  std::array<char, 1 << 16> chunk{};
  while (true) {
    CheckWanted(cancelled);
    pollfd wanted{fd, POLLIN, 0};
    if (::poll(&wanted, 1, static_cast<int>(kBetweenLooks.count())) == 0) continue;
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    if (text.size() + static_cast<size_t>(got) > max_bytes) {
      Throw(ErrorKind::kLimit, "its text is longer than {} bytes", max_bytes);
    }
    text.append(chunk.data(), static_cast<size_t>(got));
  }
}

// The program that was started; ended at the latest when this goes.
class Child {
 public:
  Child(int input, int output) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::array<std::string, 6> words = {"pdftotext", "-q", "-enc", "UTF-8", "/dev/stdin", "-"};
    std::array<char*, 7> argv{};
    for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
    const int failed = ::posix_spawnp(&pid_, argv[0], &actions, nullptr, argv.data(), ::environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (failed == ENOENT) {
      Throw(ErrorKind::kUnsupported,
            "PDF needs the program pdftotext; install it: apt install poppler-utils");
    }
    if (failed != 0) {
      Throw(ErrorKind::kIo, "cannot start pdftotext: {}", std::strerror(failed));
    }
    const auto limit = [this](__rlimit_resource what, rlim_t most) {
      const rlimit both{most, most};
      ::prlimit(pid_, what, &both, nullptr);
    };
    limit(RLIMIT_CPU, kMostSeconds);
    limit(RLIMIT_AS, kMostMemory);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Its exit status, once it has ended by itself.
  int Wait(const std::atomic<bool>* cancelled) {
    int status = 0;
    for (auto pause = std::chrono::milliseconds(1);;
         pause = std::min<std::chrono::milliseconds>(2 * pause, kBetweenLooks)) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_ || (ended < 0 && errno != EINTR)) break;
      CheckWanted(cancelled);
      std::this_thread::sleep_for(pause);
    }
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

std::string Convert(std::string_view pdf, size_t max_bytes, const std::atomic<bool>* cancelled) {
  const ConverterPlace place(cancelled);
  const Descriptor file(::memfd_create("banyan-pdf", MFD_CLOEXEC));
  if (file.get() < 0) {
    Throw(ErrorKind::kIo, "cannot keep the PDF in memory: {}", std::strerror(errno));
  }
  WriteAll(file.get(), pdf);
  ::lseek(file.get(), 0, SEEK_SET);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    Throw(ErrorKind::kIo, "no pipe for pdftotext: {}", std::strerror(errno));
  }
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  Child child(file.get(), to.get());
  to.Close();
  std::string text = ReadPipe(from.get(), max_bytes, cancelled);
  const int status = child.Wait(cancelled);
  if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL)) {
    Throw(ErrorKind::kLimit, "pdftotext took more than {} s for it", kMostSeconds);
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    Throw(ErrorKind::kInput, "pdftotext cannot read it: damaged, or locked by a password");
  }
  if (text.find_first_not_of(" \t\r\n\f") == std::string::npos) {
    Throw(ErrorKind::kInput, "no text in it (a scan?); recognise its text first, with ocrmypdf");
  }
  return text;
}

}  // namespace

std::string PdfText(std::string_view pdf, size_t max_bytes, const std::atomic<bool>* cancelled) {
  try {
    return Convert(pdf, max_bytes, cancelled);
  } catch (const WorkStopped&) {
    if (cancelled == nullptr || !*cancelled) throw;
    return {};
  }
}

}  // namespace banyan
