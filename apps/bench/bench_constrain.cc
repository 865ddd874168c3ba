// banyan bench constrain: what constraints cost on one thread, without a model's weights: the trie
// of the vocabulary, compiling, the mask of a state at its first visit and afterwards.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "banyan/constrain.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "bench_commands.h"
#include "bench_output.h"

namespace banyan::app {
namespace {

struct ConstrainCommand {
  std::string tokenizer, model;
  std::string regex, schema_file;
  int walks = 50;
  std::string json;
};

// Processor time of this thread, in milliseconds.
double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

// Sixteen attributes of a product, of every type.
std::string ProductSchema() {
  nlohmann::ordered_json properties;
  for (const char* name : {"brand", "model", "material", "colour", "origin", "title"}) {
    properties[name] = {{"type", {"string", "null"}}, {"minLength", 1}, {"maxLength", 60}};
  }
  for (const char* name : {"price", "weight", "width", "height"}) {
    properties[name] = {{"type", {"number", "null"}}, {"minimum", 0}};
  }
  for (const char* name : {"count", "year"}) {
    properties[name] = {{"type", {"integer", "null"}}, {"minimum", 0}, {"maximum", 9999}};
  }
  properties["waterproof"] = {{"type", {"boolean", "null"}}};
  properties["released"] = {{"type", "string"}, {"format", "date"}, {"nullable", true}};
  properties["condition"] = {{"enum", {"new", "used", "refurbished", nullptr}}};
  properties["tags"] = {{"type", "array"}, {"items", {{"type", "string"}}}, {"maxItems", 5}};
  nlohmann::ordered_json required = nlohmann::ordered_json::array();
  for (const auto& [name, schema] : properties.items()) required.push_back(name);
  return nlohmann::ordered_json{
      {"type", "object"}, {"properties", properties}, {"required", required}}
      .dump();
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot be read", path));
  return text;
}

struct Times {  // milliseconds
  std::vector<double> first, again;
};

// A walk of random allowed tokens, for at most 400 steps. The rarer half of the time goes to the
// lowest allowed id, mostly a single character, so that walks get out of strings.
void Walk(const std::shared_ptr<const Constraint>& constraint, std::mt19937& random, Times& times) {
  ConstraintState state(constraint);
  for (int step = 0; step < 400 && !state.MustEnd(); ++step) {
    const size_t computed = constraint->masks_computed();
    double begin = ThreadMilliseconds();
    auto mask = state.AllowedMask();
    const double first = ThreadMilliseconds() - begin;
    if (constraint->masks_computed() > computed) times.first.push_back(first);
    begin = ThreadMilliseconds();
    mask = state.AllowedMask();
    times.again.push_back(ThreadMilliseconds() - begin);
    const std::vector<TokenId> allowed = MaskTokens(*mask);
    const TokenId token = random() % 3 == 0 ? allowed.front() : allowed[random() % allowed.size()];
    if (!state.Advance(token)) throw Error(ErrorKind::kInput, "a mask allows what is not allowed");
  }
}

nlohmann::ordered_json Summary(std::vector<double> times) {
  if (times.empty()) return nullptr;
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  return {{"count", times.size()}, {"median", at(0.5)}, {"p95", at(0.95)}, {"most", at(1.0)}};
}

int RunConstrain(const ConstrainCommand& command) {
  if (command.tokenizer.empty() == command.model.empty()) {
    throw Error(ErrorKind::kUsage, "bench constrain: expected one of --tokenizer and --model");
  }
  const std::shared_ptr<const Text> text =
      Text::Load(command.model.empty() ? command.tokenizer : DescribeModel(command.model).path);
  double begin = ThreadMilliseconds();
  const std::shared_ptr<const TokenTrie> trie = MakeTokenTrie(*text);
  const double trie_ms = ThreadMilliseconds() - begin;
  const std::string schema =
      command.schema_file.empty() ? ProductSchema() : ReadFile(command.schema_file);
  std::vector<double> compile_ms;
  std::shared_ptr<const Constraint> constraint;
  for (int run = 0; run < 5; ++run) {
    begin = ThreadMilliseconds();
    constraint = command.regex.empty() ? Constraint::FromJsonSchema(schema, trie)
                                       : Constraint::FromRegex(command.regex, trie);
    compile_ms.push_back(ThreadMilliseconds() - begin);
  }
  std::mt19937 random(1);
  Times times;
  for (int walk = 0; walk < command.walks; ++walk) Walk(constraint, random, times);
  const nlohmann::ordered_json json = {{"tokenizer", text->description()},
                                       {"states", constraint->states()},
                                       {"trie_ms", trie_ms},
                                       {"compile_ms", Summary(compile_ms)},
                                       {"mask_first_ms", Summary(times.first)},
                                       {"mask_again_ms", Summary(times.again)}};
  if (command.json != "-") {
    fmt::print("constrain: {} | {} states | one thread, {} walks\n\n", text->description(),
               constraint->states(), command.walks);
    fmt::print("| | times | median ms | 95 % ms | most ms |\n|---|---|---|---|---|\n");
    fmt::print("| trie of the vocabulary | 1 | {0:.1f} | {0:.1f} | {0:.1f} |\n", trie_ms);
    for (const char* name : {"compile_ms", "mask_first_ms", "mask_again_ms"}) {
      const nlohmann::ordered_json& row = json.at(name);
      if (row.is_null()) continue;
      fmt::print("| {} | {} | {:.4f} | {:.4f} | {:.4f} |\n",
                 std::string(name, std::string(name).size() - 3), row["count"].get<size_t>(),
                 row["median"].get<double>(), row["p95"].get<double>(), row["most"].get<double>());
    }
  }
  if (!command.json.empty()) WriteJson(command.json, json);
  return 0;
}

}  // namespace

BenchCommand AddBenchConstrain(CLI::App& bench) {
  CLI::App* app = bench.add_subcommand(
      "constrain", "Compiling a constraint and masking tokens by it, on one thread");
  auto command = std::make_shared<ConstrainCommand>();
  app->add_option("--tokenizer", command->tokenizer,
                  "tokenizer.json, a directory that holds one, or a GGUF file");
  app->add_option("-m,--model", command->model,
                  "Instead: GGUF file, Hugging Face directory, or a name in the local caches");
  CLI::Option* regex = app->add_option("--regex", command->regex, "The constraint");
  app->add_option("--json-schema", command->schema_file,
                  "The constraint, as a file; without either, a schema of sixteen attributes")
      ->excludes(regex);
  app->add_option("--walks", command->walks, "Random texts along the masks")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app->add_option("--json", command->json, "Also write the figures to this file; - for stdout");
  return {app, [command] { return RunConstrain(*command); }};
}

}  // namespace banyan::app
