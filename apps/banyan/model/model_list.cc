#include "model/model_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "program/models.h"
#include "terminal/screen.h"

namespace banyan::app {
namespace {

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
  try {
    text += fmt::format("Without -m: {}\n", DefaultModel());
  } catch (const Error& e) {
    text += fmt::format("Without -m: {}\n", e.what());
  }
  Print(text);
}

}  // namespace

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

}  // namespace banyan::app
