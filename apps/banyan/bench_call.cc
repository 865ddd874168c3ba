#include "bench_call.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "banyan/error.h"

namespace banyan::app {
namespace {

constexpr const char* kProgram = "banyan-bench";

}  // namespace

const std::vector<std::string>& BenchNames() {
  static const std::vector<std::string> names = {
      "squad2",  "narrativeqa", "race",      "longhealth", "shared", "hydragen",  "tree",
      "forest",  "grid",        "attention", "arrival",    "text",   "constrain", "constrained",
      "extract", "rag",         "draft",     "step",       "ops",    "kv"};
  return names;
}

void CallBench(const std::vector<std::string>& arguments) {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::string beside = failed ? std::string() : (self.parent_path() / kProgram).string();
  std::vector<std::string> words = {kProgram};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (!beside.empty()) ::execv(beside.c_str(), pointers.data());
  ::execvp(kProgram, pointers.data());  // elsewhere on the PATH
  throw Error(ErrorKind::kNotFound,
              fmt::format("bench is a program of its own, {}: expected it at {} or on the PATH; it "
                          "comes with the source and the Debian package",
                          kProgram, beside.empty() ? "the folder of banyan" : beside));
}

Command AddBench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Measure speed; the strategies' outputs are compared bit for bit");
  const std::string what = fmt::format("What to measure: {}", fmt::join(BenchNames(), ", "));
  bench->add_option("name", what)->type_name(fmt::format("{}", fmt::join(BenchNames(), "|")));
  bench->footer("'banyan bench NAME --help' says what it measures.");
  // Reached by no command line: RunProgram calls banyan-bench before it parses.
  return []() -> int { CallBench({}); };
}

}  // namespace banyan::app
