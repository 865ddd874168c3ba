// Quantisations by their names and sizes.
#include "hub/choice.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

namespace banyan {
namespace {

constexpr std::int64_t kMostSmallBytes = std::int64_t{64} << 20;
constexpr size_t kMostParts = 4096;

std::string Upper(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct PartName {
  std::string stem;  // without "-00001-of-00003.gguf" or ".gguf"
  size_t number = 1, count = 1;
};

std::optional<size_t> FiveDigits(std::string_view text) {
  if (text.size() != 5 || !std::ranges::all_of(text, IsDigit)) return std::nullopt;
  size_t number = 0;
  for (const char c : text) number = 10 * number + static_cast<size_t>(c - '0');
  return number;
}

PartName PartOf(std::string_view path) {
  constexpr std::string_view kEnd = ".gguf", kForm = "-00001-of-00003";
  path.remove_suffix(kEnd.size());
  PartName part{std::string(path)};
  if (path.size() <= kForm.size()) return part;
  const std::string_view tail = path.substr(path.size() - kForm.size());
  const auto number = FiveDigits(tail.substr(1, 5)), count = FiveDigits(tail.substr(10));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || !number || !count) return part;
  if (*number == 0 || *number > *count || *count > kMostParts) return part;
  return {std::string(path.substr(0, path.size() - kForm.size())), *number, *count};
}

// "Q4_K_M", "IQ2_XXS", "TQ1_0", "MXFP4", "BF16": a word that is nothing else.
bool IsQuantisationWord(std::string_view word) {
  for (const char* plain : {"F16", "BF16", "F32", "FP16", "FP32", "MXFP4", "NVFP4"}) {
    if (word == plain) return true;
  }
  if (word.starts_with("MXFP4_")) return true;
  if (word.starts_with("I") || word.starts_with("T")) word.remove_prefix(1);
  return word.size() >= 3 && word[0] == 'Q' && IsDigit(word[1]) && word[2] == '_';
}

bool IsPlainFloat(const std::string& quantisation) {
  return quantisation.find("F16") != std::string::npos ||
         quantisation.find("F32") != std::string::npos || quantisation == "FP16" ||
         quantisation == "FP32";
}

// Layouts of other programs, which nothing here reads.
bool IsUnreadable(const std::string& quantisation) {
  return quantisation.starts_with("Q4_0_") || quantisation == "NVFP4";
}

}  // namespace

std::string QuantisationOf(std::string_view path) {
  if (!path.ends_with(".gguf")) return "";
  const std::string stem = Upper(PartOf(path).stem);
  std::string found;
  for (size_t begin = 0; begin < stem.size();) {
    const size_t end = std::min(stem.find_first_of("-./ ", begin), stem.size());
    const std::string word = stem.substr(begin, end - begin);
    if (IsQuantisationWord(word)) {
      const bool dynamic = begin >= 3 && stem.compare(begin - 3, 3, "UD-") == 0;
      found = (dynamic ? "UD-" : "") + word;
    }
    begin = end + 1;
  }
  if (!found.empty()) return found;
  // "model_Q4_K_M.gguf", where words are not told apart.
  for (size_t at = stem.find('_'); at != std::string::npos; at = stem.find('_', at + 1)) {
    const std::string word = stem.substr(at + 1);
    if (IsQuantisationWord(word)) return word;
  }
  return "";
}

std::vector<GgufChoice> GgufChoices(std::span<const HubFile> files) {
  struct Parts {
    std::map<size_t, const HubFile*> by_number;
    size_t count = 1;
  };
  std::map<std::pair<std::string, size_t>, Parts> models;
  for (const HubFile& file : files) {
    if (!file.path.ends_with(".gguf")) continue;
    const std::string name = Upper(file.path.substr(file.path.rfind('/') + 1));
    if (name.find("MMPROJ") != std::string::npos || name.find("IMATRIX") != std::string::npos) {
      continue;
    }
    const PartName part = PartOf(file.path);
    Parts& parts = models[{part.stem, part.count}];
    parts.count = part.count;
    parts.by_number[part.number] = &file;
  }
  std::vector<GgufChoice> choices;
  for (const auto& [stem, parts] : models) {
    GgufChoice choice;
    choice.quantisation = QuantisationOf(parts.by_number.begin()->second->path);
    choice.whole = parts.by_number.size() == parts.count;
    for (const auto& [number, file] : parts.by_number) {
      choice.files.push_back(file->path);
      choice.bytes += file->bytes;
    }
    choices.push_back(std::move(choice));
  }
  std::ranges::stable_sort(choices, [](const GgufChoice& a, const GgufChoice& b) {
    return std::tuple(-a.bytes, a.files.front().size(), b.files.front()) <
           std::tuple(-b.bytes, b.files.front().size(), a.files.front());
  });
  return choices;
}

std::int64_t MemoryToRun(std::int64_t file_bytes) {
  // Scales take more room when they are packed for products; then KV and activations.
  return file_bytes + file_bytes / 4 + (std::int64_t{1} << 30);
}

const GgufChoice* BestChoice(std::span<const GgufChoice> choices, std::int64_t memory) {
  const auto readable = [](const GgufChoice& choice) {
    return choice.whole && !IsUnreadable(choice.quantisation);
  };
  const bool quantised = std::ranges::any_of(choices, [&](const GgufChoice& choice) {
    return readable(choice) && !IsPlainFloat(choice.quantisation);
  });
  for (const GgufChoice& choice : choices) {
    if (!readable(choice) || (quantised && IsPlainFloat(choice.quantisation))) continue;
    if (MemoryToRun(choice.bytes) <= memory) return &choice;
  }
  return nullptr;
}

const GgufChoice* NamedChoice(std::span<const GgufChoice> choices, std::string_view quantisation) {
  const std::string wanted = Upper(quantisation);
  for (const std::string& name : {wanted, "UD-" + wanted}) {
    for (const GgufChoice& choice : choices) {
      if (choice.whole && choice.quantisation == name) return &choice;
    }
  }
  return nullptr;
}

std::string SizeInWords(std::int64_t bytes) {
  const double mega = static_cast<double>(bytes) / 1e6;
  return mega < 1000.0 ? fmt::format("{:.1f} MB", mega) : fmt::format("{:.1f} GB", mega / 1000.0);
}

std::string DescribeChoices(std::span<const GgufChoice> choices) {
  constexpr size_t kMostShown = 24;
  std::string text;
  for (size_t i = 0; i < std::min(choices.size(), kMostShown); ++i) {
    const GgufChoice& choice = choices[i];
    const std::string& name =
        choice.quantisation.empty() ? choice.files.front() : choice.quantisation;
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", name, SizeInWords(choice.bytes));
  }
  if (choices.size() > kMostShown) text += fmt::format(" and {} more", choices.size() - kMostShown);
  return text;
}

bool IsSmallModelFile(const HubFile& file) {
  if (file.bytes > kMostSmallBytes) return false;
  const std::string& path = file.path;
  if (path.find('/') != std::string::npos) {  // what sentence-transformers keeps in folders
    return path == "1_Pooling/config.json";
  }
  if (path.ends_with(".index.json")) return path == "model.safetensors.index.json";
  return path.ends_with(".json") || path.ends_with(".jinja") || path == "README.md" ||
         path.starts_with("LICEN") || path.starts_with("NOTICE") || path.starts_with("USE_POLICY");
}

bool IsSafetensorsModel(const HubRepository& repository) {
  return repository.Find("config.json") != nullptr &&
         (repository.Find("model.safetensors") != nullptr ||
          repository.Find("model.safetensors.index.json") != nullptr);
}

bool IsAdapter(const HubRepository& repository) {
  return repository.Find("adapter_config.json") != nullptr &&
         repository.Find("adapter_model.safetensors") != nullptr;
}

}  // namespace banyan
