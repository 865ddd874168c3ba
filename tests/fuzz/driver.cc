// Runs a fuzz target without libFuzzer: `NAME_fuzz SEED_DIRECTORY_OR_FILE…` feeds every seed as it
// is, then a fixed sequence of mutations of them until a count or a time is reached. A crash, a
// sanitizer report, an exception that the target lets out, an input that takes more than
// kMaxInputSeconds or an allocation above the memory limit ends the program with an error; the
// input is then in the file NAME_fuzz.failure of the working directory, to be given as the only
// argument.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());
extern "C" __attribute__((weak)) const char* __asan_default_options();
const char* __asan_default_options() { return "max_allocation_size_mb=1024"; }

namespace {

constexpr int kMutations = 20000;
constexpr double kMaxSeconds = 8.0;
constexpr unsigned kMaxInputSeconds = 10;
constexpr size_t kMaxInputBytes = 1 << 20;
constexpr rlim_t kMaxMemoryBytes = rlim_t{2} << 30;  // of a process without sanitizers

// For the report of a failure.
std::string current_input;
std::string failure_file;
std::string failure_message;

void SaveInput() {
  const int fd = ::open(failure_file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, current_input.data(), current_input.size());
  ::close(fd);
}

void OnSignal(int signal) {
  SaveInput();
  [[maybe_unused]] const ssize_t written =
      ::write(2, failure_message.data(), failure_message.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void Run(std::string input) {
  current_input = std::move(input);
  ::alarm(kMaxInputSeconds);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(current_input.data()),
                         current_input.size());
  ::alarm(0);
}

std::vector<std::string> ReadSeeds(int argc, char** argv) {
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        if (entry.is_regular_file()) paths.push_back(entry.path());
      }
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  std::ranges::sort(paths);
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& seeds) : seeds_(seeds) {}

  std::string Next() {
    std::string input = seeds_[Below(seeds_.size())];
    for (size_t n = 1 + Below(4); n > 0; --n) MutateOnce(input);
    if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
    return input;
  }

 private:
  // A number in [0, n); 0 when n is 0.
  size_t Below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }

  void MutateOnce(std::string& s) {
    const size_t at = Below(s.size());
    switch (Below(8)) {
      case 0:  // flip a bit
        if (!s.empty()) s[at] = static_cast<char>(s[at] ^ (1 << Below(8)));
        break;
      case 1:  // set a byte
        if (!s.empty()) s[at] = static_cast<char>(Below(256));
        break;
      case 2:  // cut short
        s.resize(at);
        break;
      case 3:  // remove a piece
        s.erase(at, Below(64));
        break;
      case 4:  // repeat a piece
        s.insert(at, s.substr(Below(s.size()), Below(64)));
        break;
      case 5: {  // put in a piece of another seed
        const std::string& other = seeds_[Below(seeds_.size())];
        s.replace(at, Below(64), other.substr(Below(other.size()), Below(256)));
        break;
      }
      case 6:
        WriteExtreme(s);
        break;
      default:
        ReplaceDecimal(s);
    }
  }

  // Binary lengths: an extreme integer of 1, 2, 4 or 8 bytes over what is there.
  void WriteExtreme(std::string& s) {
    const size_t width = size_t{1} << Below(4);
    if (s.size() < width) return;
    const std::uint64_t extremes[] = {0,          1,          0x7f,
                                      0x80,       0xff,       0x7fff,
                                      0xffff,     0x7fffffff, 0x80000000,
                                      0xffffffff, s.size(),   s.size() + 1,
                                      ~0ull,      ~0ull >> 1, (~0ull >> 1) + 1,
                                      ~0ull / 8};
    const std::uint64_t value = extremes[Below(std::size(extremes))];
    std::memcpy(s.data() + Below(s.size() - width + 1), &value, width);
  }

  // Written lengths: another number in the place of a run of digits.
  void ReplaceDecimal(std::string& s) {
    static constexpr const char* kNumbers[] = {"0",
                                               "-1",
                                               "1e999",
                                               "1e-999",
                                               "0.5",
                                               "2147483647",
                                               "2147483648",
                                               "4294967296",
                                               "null",
                                               "\"text\"",
                                               "[]",
                                               "18446744073709551615",
                                               "18446744073709551616",
                                               "[[[[[[[["};
    size_t begin = s.find_first_of("0123456789", Below(s.size()));
    if (begin == std::string::npos) return;
    size_t end = begin;
    while (end < s.size() && s[end] >= '0' && s[end] <= '9') ++end;
    s.replace(begin, end - begin, kNumbers[Below(std::size(kNumbers))]);
  }

  const std::vector<std::string>& seeds_;
  std::mt19937_64 random_{20240229};
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> seeds = ReadSeeds(argc, argv);
  if (seeds.empty()) {
    std::fprintf(stderr, "usage: %s SEED_DIRECTORY_OR_FILE... (no seeds found)\n", argv[0]);
    return 2;
  }
  failure_file = std::filesystem::path(argv[0]).filename().string() + ".failure";
  failure_message = "fuzz: failed or too slow; the input is in " + failure_file + "\n";
  std::vector<int> signals = {SIGABRT, SIGALRM};
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(SaveInput);  // reports the other signals itself
  } else {
    signals.insert(signals.end(), {SIGSEGV, SIGFPE, SIGBUS});
    const rlimit limit{kMaxMemoryBytes, kMaxMemoryBytes};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  for (const int signal : signals) std::signal(signal, OnSignal);

  for (const std::string& seed : seeds) Run(seed);
  Mutator mutator(seeds);
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  int mutations = 0;
  while (mutations < kMutations && elapsed() < kMaxSeconds) {
    Run(mutator.Next());
    ++mutations;
  }
  std::printf("%zu seeds and %d mutations in %.1f s: no failure\n", seeds.size(), mutations,
              elapsed());
  return 0;
}
