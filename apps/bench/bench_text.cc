// banyan bench text: the tokenizer alone on one thread, without a model's weights.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>

#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "bench_commands.h"
#include "bench_report.h"
#include "program/json_library.h"

namespace banyan::app {
namespace {

struct TextCommand {
  std::string tokenizer;
  std::string model;
  std::string file;
  int runs = 5;
  std::string json;
};

struct Timing {  // of one thread
  const char* name;
  double first_seconds = 0.0;  // nothing was seen before
  double median_seconds = 0.0;
};

// Processor time of this thread: what other programs do does not count.
double ThreadSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Timing Measure(const char* name, int runs, const std::function<void()>& body) {
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    const double begin = ThreadSeconds();
    body();
    seconds.push_back(ThreadSeconds() - begin);
  }
  Timing timing{name, seconds.front(), 0.0};
  std::sort(seconds.begin(), seconds.end());
  timing.median_seconds = seconds[seconds.size() / 2];
  return timing;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot be read", path));
  if (text.empty()) throw Error(ErrorKind::kInput, fmt::format("{}: the file is empty", path));
  return text;
}

// The lines that are not empty, without their ends.
std::vector<std::string_view> DocumentsOf(std::string_view text) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) documents.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return documents;
}

// FNV-1a, an id at a time: bench/rivals/tokenizers_text.py computes the same.
std::uint64_t HashOf(const std::vector<std::vector<TokenId>>& lists) {
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const std::vector<TokenId>& ids : lists) {
    for (const TokenId id : ids) {
      hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001B3ull;
    }
  }
  return hash;
}

// Texts one after another: encoded, then decoded.
nlohmann::ordered_json RunTexts(const Text& text, const std::vector<std::string_view>& texts,
                                const std::string& what, int runs, std::string& table) {
  std::vector<std::vector<TokenId>> ids(texts.size());
  const Timing encode = Measure("encode", runs, [&] {
    for (size_t i = 0; i < texts.size(); ++i) ids[i] = text.Encode(texts[i], false, false);
  });
  size_t decoded_bytes = 0;
  const Timing decode = Measure("decode", runs, [&] {
    for (const std::vector<TokenId>& list : ids) decoded_bytes += text.Decode(list, false).size();
  });
  double bytes = 0.0, tokens = 0.0;
  for (const std::string_view one : texts) bytes += static_cast<double>(one.size());
  for (const std::vector<TokenId>& list : ids) tokens += static_cast<double>(list.size());
  nlohmann::ordered_json json = {{"texts", texts.size()},
                                 {"bytes", static_cast<std::int64_t>(bytes)},
                                 {"tokens", static_cast<std::int64_t>(tokens)},
                                 {"decoded_bytes", decoded_bytes / static_cast<size_t>(runs)},
                                 {"ids_hash", fmt::format("{:016x}", HashOf(ids))}};
  for (const Timing& timing : {encode, decode}) {
    table +=
        fmt::format("| {} | {} | {} | {:.2f} | {:.2f} | {:.0f} | {:.0f} |\n", timing.name, what,
                    texts.size(), bytes / timing.first_seconds * 1e-6,
                    bytes / timing.median_seconds * 1e-6, tokens / timing.median_seconds, tokens);
    json[timing.name] = {{"first_seconds", timing.first_seconds},
                         {"seconds", timing.median_seconds},
                         {"mb_per_second", bytes / timing.median_seconds * 1e-6},
                         {"tokens_per_second", tokens / timing.median_seconds}};
  }
  return json;
}

int RunText(const TextCommand& command) {
  if (command.tokenizer.empty() == command.model.empty()) {
    throw Error(ErrorKind::kUsage, "bench text: expected one of --tokenizer and --model");
  }
  const std::string path =
      command.model.empty() ? command.tokenizer : DescribeModel(command.model).path;
  const std::shared_ptr<const Text> text = Text::Load(path);
  const std::string contents = ReadText(command.file);
  const std::vector<std::string_view> documents = DocumentsOf(contents);
  std::string table = "| | texts | calls | MB/s first | MB/s | tokens/s | tokens |\n";
  table += "|---|---|---|---|---|---|---|\n";
  nlohmann::ordered_json json = {{"tokenizer", text->description()}, {"runs", command.runs}};
  json["documents"] = RunTexts(*text, documents, "lines", command.runs, table);
  json["whole"] = RunTexts(*text, {contents}, "file", command.runs, table);
  if (command.json != "-") {
    fmt::print("text: {} | {} bytes | one thread, median of {} runs\n\n{}\n", text->description(),
               contents.size(), command.runs, table);
    fmt::print("ids: lines {}, file {}\n", json["documents"]["ids_hash"].get<std::string>(),
               json["whole"]["ids_hash"].get<std::string>());
  }
  if (!command.json.empty()) WriteJson(command.json, json);
  return 0;
}

}  // namespace

BenchCommand AddBenchText(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "text", "Text to tokens and back on one thread: each line of a file, and the whole file");
  auto command = std::make_shared<TextCommand>();
  app->add_option("file", command->file, "A text; its lines are the documents")->required();
  app->add_option("--tokenizer", command->tokenizer,
                  "tokenizer.json, a directory that holds one, or a GGUF file");
  app->add_option("-m,--model", command->model,
                  "Instead: GGUF file, Hugging Face directory, or a name in the local caches");
  app->add_option("--runs", command->runs, "Timed runs of each")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--json", command->json, "Also write the figures to this file; - for stdout");
  return {app, [command] { return RunText(*command); }};
}

}  // namespace banyan::app
