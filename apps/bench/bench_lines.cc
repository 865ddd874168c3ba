// banyan bench lines: benchmarks from standard input, one after another in this process, so that a
// model which several of them use is made or loaded once.
#include <unistd.h>

#include <fmt/format.h>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "bench_commands.h"
#include "bench_run.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

// Throws kInput naming the line.
std::vector<std::string> WordsOf(const std::string& line, int number) {
  const nlohmann::json words = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  bool fits = words.is_array() && !words.empty();
  for (const nlohmann::json& word : words) fits = fits && word.is_string();
  if (!fits) {
    throw Error(ErrorKind::kInput,
                fmt::format("standard input, line {}: expected the words of a benchmark such as "
                            "[\"squad2\", \"--shape\", \"tiny\"], found {}",
                            number, line.substr(0, 80)));
  }
  return words;
}

Command AddUnrun(CLI::App& app) {
  // Kept, for it holds what the options write to.
  return [run = AddBenches(app)] { return 0; };
}

int RunWords(const std::vector<std::string>& words, bool check) {
  std::vector<std::string> all = {"banyan", "bench"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  return RunCommands(static_cast<int>(pointers.size()), pointers.data(),
                     {check ? AddUnrun : AddBenches});
}

// What the benchmarks print goes to stderr: standard output has the replies alone.
std::FILE* TakeStandardOutput() {
  std::cout.flush();
  std::fflush(stdout);
  const int replies = ::dup(STDOUT_FILENO);
  std::FILE* file = replies < 0 ? nullptr : ::fdopen(replies, "w");
  if (file == nullptr || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    throw Error(ErrorKind::kInput, "standard output: it cannot be copied");
  }
  return file;
}

int RunLines(bool check) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> replies(TakeStandardOutput(), std::fclose);
  const KeptModel kept;
  int number = 0, failed = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const int status = RunWords(WordsOf(line, ++number), check);
    failed += status == 0 ? 0 : 1;
    fmt::print(replies.get(), "{{\"line\":{},\"exit\":{}}}\n", number, status);
    if (std::fflush(replies.get()) != 0) break;  // nobody listens
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

BenchCommand AddBenchLines(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "lines",
      "Benchmarks from standard input, a JSON list of words each line; equal models are made once");
  auto check = std::make_shared<bool>(false);
  app->add_flag("--check", *check, "Only say whether the options of each are right");
  app->footer(
      "A line on standard output follows each: {\"line\":1,\"exit\":0}. What they print goes "
      "to stderr.");
  return {app, [check] { return RunLines(*check); }};
}

}  // namespace banyan::app
