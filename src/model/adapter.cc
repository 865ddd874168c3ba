#include "model/adapter.h"

#include <fmt/format.h>
#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "formats/safetensors.h"
#include "model/json_fields.h"

namespace banyan {
namespace {

// Keys that make an adapter more than a sum of low-rank products, unless they are null, false or
// empty.
constexpr const char* kMore[] = {"use_dora",          "use_qalora",
                                 "use_bdlora",        "lora_bias",
                                 "fan_in_fan_out",    "modules_to_save",
                                 "layer_replication", "trainable_token_indices",
                                 "target_parameters", "alora_invocation_tokens",
                                 "arrow_config",      "kasa_config",
                                 "monteclora_config"};

bool IsSet(const Json& value) {
  if (value.is_null() || value == false) return false;
  return !((value.is_array() || value.is_object()) && value.empty());
}

void RefuseMore(const JsonFields& fields) {
  const std::string type = fields.FindString("peft_type").value_or("");
  if (type != "LORA") {
    Throw(ErrorKind::kUnsupported, "{}: 'peft_type': expected \"LORA\", found \"{}\"",
          fields.where(), type);
  }
  for (const char* key : kMore) {
    const Json* value = fields.Find(key);
    if (value == nullptr || !IsSet(*value)) continue;
    Throw(ErrorKind::kUnsupported, "{}: '{}' is {}, which is not supported", fields.where(), key,
          value->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80));
  }
  const std::string bias = fields.FindString("bias").value_or("none");
  if (bias != "none") {
    Throw(ErrorKind::kUnsupported, "{}: 'bias': expected \"none\", found \"{}\"", fields.where(),
          bias);
  }
  // Other initialisations change the weights that the products are added to.
  const Json* begin = fields.Find("init_lora_weights");
  if (begin != nullptr && !begin->is_boolean() && *begin != "gaussian" && *begin != "orthogonal" &&
      *begin != "eva") {
    Throw(ErrorKind::kUnsupported,
          "{}: 'init_lora_weights' is {}: such an adapter belongs to changed weights; PEFT can "
          "convert it (path_initial_model_for_weight_conversion)",
          fields.where(), begin->dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80));
  }
}

void CheckKey(const std::string& key, const JsonFields& fields, const char* pattern) {
  bool plain = !key.empty();
  for (size_t i = 0; i < key.size(); ++i) {
    if (key[i] == '\\' && i + 1 < key.size() && key[i + 1] == '.') continue;
    plain &= std::string_view("\\*+?|()[]{}$").find(key[i]) == std::string_view::npos &&
             (key[i] != '^' || i == 0);
  }
  if (plain) return;
  Throw(ErrorKind::kUnsupported,
        "{}: '{}': expected names of modules such as \"q_proj\" or \"layers.0.mlp.up_proj\", found "
        "the expression \"{}\"",
        fields.where(), pattern, key);
}

int CheckRank(int rank, const JsonFields& fields, const char* key) {
  if (rank < 1) {
    Throw(ErrorKind::kFormat, "{}: '{}': expected a rank of at least 1, found {}", fields.where(),
          key, rank);
  }
  return rank;
}

void ReadPatterns(const JsonFields& fields, AdapterConfig& config) {
  const auto each = [&](const char* key, const auto& read) {
    const Json* patterns = fields.Find(key);
    if (patterns == nullptr) return;
    const JsonFields inner(*patterns, fields.where() + ": '" + key + "'");
    for (const auto& [name, value] : patterns->items()) {
      CheckKey(name, fields, key);
      read(inner, name, value);
    }
  };
  each("rank_pattern", [&](const JsonFields& inner, const std::string& name, const Json& value) {
    config.ranks[name] = CheckRank(inner.IntOf(value, name.c_str()), inner, name.c_str());
  });
  each("alpha_pattern", [&](const JsonFields& inner, const std::string& name, const Json& value) {
    if (!value.is_number()) inner.WrongType(name.c_str(), value, "a number");
    config.alphas[name] = value.get<double>();
  });
}

// Whether a key names a module: its whole name or the end of it after a dot, as "q_proj" and
// "layers.3.self_attn.q_proj" do; only the whole name when it begins with "^". PEFT reads keys as
// regular expressions; of those, "\." for a dot is understood.
bool NamesModule(std::string_view key, std::string_view module) {
  const bool whole = key.starts_with('^');
  if (whole) key.remove_prefix(1);
  std::string name;
  for (const char c : key) {
    if (c != '\\') name += c;
  }
  if (module == name) return true;
  return !whole && module.size() > name.size() && module.ends_with(name) &&
         module[module.size() - name.size() - 1] == '.';
}

// The value of the key that names the module; two that do must agree.
template <typename T>
T Choose(const std::map<std::string, T>& pattern, const std::string& module, T otherwise) {
  const std::pair<const std::string, T>* chosen = nullptr;
  for (const auto& entry : pattern) {
    if (!NamesModule(entry.first, module)) continue;
    if (chosen != nullptr && chosen->second != entry.second) {
      Throw(ErrorKind::kFormat, "adapter_config.json: '{}' and '{}' both name '{}': {} or {}?",
            chosen->first, entry.first, module, chosen->second, entry.second);
    }
    chosen = &entry;
  }
  return chosen == nullptr ? otherwise : chosen->second;
}

}  // namespace

int AdapterConfig::RankOf(const std::string& module) const { return Choose(ranks, module, rank); }

float AdapterConfig::ScaleOf(const std::string& module) const {
  const double r = RankOf(module);
  return static_cast<float>(Choose(alphas, module, alpha) / (root_scale ? std::sqrt(r) : r));
}

AdapterConfig ReadAdapterConfig(std::string_view text, const std::string& where) {
  const Json json = ParseJson(text, where);
  const JsonFields fields(json, where);
  RefuseMore(fields);
  AdapterConfig config;
  if (json.contains("base_model_name_or_path") && json["base_model_name_or_path"].is_string()) {
    config.base_model = json["base_model_name_or_path"].get<std::string>();
  }
  config.rank = CheckRank(fields.GetInt("r"), fields, "r");
  const std::optional<double> alpha = fields.FindNumber("lora_alpha");
  if (!alpha) Throw(ErrorKind::kFormat, "{}: 'lora_alpha' is missing", where);
  config.alpha = *alpha;
  config.root_scale = fields.FindBool("use_rslora").value_or(false);
  ReadPatterns(fields, config);
  const auto check_size = [&](double value) {
    if (std::abs(value) <= std::numeric_limits<float>::max()) return;
    Throw(ErrorKind::kFormat, "{}: an alpha of {} is too large", where, value);
  };
  check_size(config.alpha);
  for (const auto& [name, value] : config.alphas) check_size(value);
  const Json* targets = fields.Find("target_modules");
  if (targets != nullptr && targets->is_array()) {
    for (const Json& target : *targets) {
      if (!target.is_string()) fields.WrongType("target_modules", target, "names");
      config.target_modules.push_back(target.get<std::string>());
    }
  }
  return config;
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxConfigBytes = 16u << 20;
constexpr std::string_view kConfigName = "adapter_config.json";
constexpr std::string_view kTensorsName = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";

struct Ending {
  std::string_view text;
  bool is_a;
  bool embedding;
};
constexpr Ending kEndings[] = {{".lora_A.weight", true, false},
                               {".lora_B.weight", false, false},
                               {".lora_embedding_A", true, true},
                               {".lora_embedding_B", false, true}};

std::string FileIn(const std::string& directory, std::string_view name) {
  return fmt::format("{}/{}", directory, name);
}

}  // namespace

Adapter Adapter::Open(const fs::path& directory) {
  for (const std::string_view name : {kConfigName, kTensorsName}) {
    std::error_code none;
    if (fs::is_regular_file(directory / name, none)) continue;
    Throw(ErrorKind::kNotFound, "{}: expected the directory of a PEFT adapter with {} and {}{}",
          directory.string(), kConfigName, kTensorsName,
          fs::is_directory(directory, none) ? fmt::format("; there is no {}", name)
                                            : "; it is no directory");
  }
  return {ReadTextFile(directory / kConfigName, kMaxConfigBytes),
          OpenSafetensors(directory / kTensorsName), directory.string()};
}

Adapter::Adapter(std::string_view config_text, TensorStore tensors, const std::string& where)
    : where_(where), tensors_(std::move(tensors)) {
  const AdapterConfig config = ReadAdapterConfig(config_text, FileIn(where, kConfigName));
  base_model_ = config.base_model;
  for (const std::string& name : tensors_.Names()) AddTensor(name);
  if (modules_.empty()) {
    Throw(ErrorKind::kFormat, "{}: no tensors", FileIn(where_, kTensorsName));
  }
  CheckPairs();
  for (auto& [name, product] : modules_) {
    const int rank = config.RankOf(name);
    if (product.rank != rank) {
      Throw(ErrorKind::kFormat,
            "{}: tensor '{}': expected shape [{}, …] (the rank in {}), found {}",
            FileIn(where_, kTensorsName), product.a->name, rank, kConfigName,
            ShapeText(product.a->shape));
    }
    product.scale = config.ScaleOf(name);
  }
  CheckTargets(config.target_modules);
}

void Adapter::AddTensor(const std::string& name) {
  const std::string file = FileIn(where_, kTensorsName);
  for (const Ending& ending : kEndings) {
    if (!name.starts_with(kPrefix) || !name.ends_with(ending.text)) continue;
    if (name.size() <= kPrefix.size() + ending.text.size()) continue;
    const std::string module =
        name.substr(kPrefix.size(), name.size() - kPrefix.size() - ending.text.size());
    const HostTensor& tensor = tensors_.GetAnyShape(name);
    if (tensor.shape.size() != 2 || tensor.shape[0] < 1 || tensor.shape[1] < 1) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}': expected a matrix, found shape {}", file, name,
            ShapeText(tensor.shape));
    }
    LowRankProduct& product = modules_[module];
    if ((product.a != nullptr || product.b != nullptr) && product.embedding != ending.embedding) {
      Throw(ErrorKind::kFormat, "{}: module '{}' is adapted as an embedding and as a matrix", file,
            module);
    }
    product.embedding = ending.embedding;
    (ending.is_a ? product.a : product.b) = &tensor;
    if (ending.is_a) product.rank = tensor.shape[0];
    return;
  }
  Throw(ErrorKind::kUnsupported,
        "{}: tensor '{}' is no part of a low-rank product; expected names such as "
        "'{}model.layers.0.self_attn.q_proj.lora_A.weight' (whole modules, biases and magnitudes "
        "are not supported)",
        file, name, kPrefix);
}

void Adapter::CheckPairs() const {
  const std::string file = FileIn(where_, kTensorsName);
  for (const auto& [name, product] : modules_) {
    if (product.a == nullptr || product.b == nullptr) {
      const HostTensor& there = product.a == nullptr ? *product.b : *product.a;
      Throw(ErrorKind::kFormat, "{}: tensor '{}' is there without its lora_{}", file, there.name,
            product.a == nullptr ? "A" : "B");
    }
    if (product.b->shape[1] != product.rank) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}': expected shape [{}, {}], found {}", file,
            product.b->name, product.b->shape[0], product.rank, ShapeText(product.b->shape));
    }
  }
}

void Adapter::CheckTargets(const std::vector<std::string>& targets) const {
  for (const std::string& target : targets) {
    bool there = false;
    for (const auto& [name, product] : modules_) there |= NamesModule(target, name);
    if (there) continue;
    Throw(ErrorKind::kFormat, "{}: no tensor for '{}', which target_modules in {} has",
          FileIn(where_, kTensorsName), target, kConfigName);
  }
}

const LowRankProduct* Adapter::Find(const std::string& module, std::int64_t out, std::int64_t in) {
  const auto found = modules_.find(module);
  if (found == modules_.end()) return nullptr;
  const LowRankProduct& product = found->second;
  if (product.embedding) std::swap(out, in);
  const auto check = [&](const HostTensor& tensor, const std::vector<std::int64_t>& shape) {
    if (tensor.shape == shape) return;
    Throw(ErrorKind::kFormat, "{}{}: tensor '{}': expected shape {} for this model, found {}",
          ForWhom(), FileIn(where_, kTensorsName), tensor.name, ShapeText(shape),
          ShapeText(tensor.shape));
  };
  check(*product.a, {product.rank, in});
  check(*product.b, {out, product.rank});
  found_.insert(module);
  return &product;
}

// "this adapter is for smollm2-135m-instruct (give it with -m); "; empty where the name is unknown.
std::string Adapter::ForWhom() const {
  if (base_model_.empty()) return {};
  std::string name = base_model_.substr(base_model_.rfind('/') + 1);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return fmt::format("this adapter is for {} (give that model with -m, for example -m {}); ",
                     base_model_, name);
}

void Adapter::CheckAllFound() const {
  for (const auto& [name, product] : modules_) {
    if (found_.contains(name)) continue;
    Throw(
        ErrorKind::kFormat,
        "{}{}: tensor '{}' adapts '{}', which this model does not have: the adapter is for another "
        "model",
        ForWhom(), FileIn(where_, kTensorsName), product.a->name, name);
  }
}

std::string Adapter::Settings() const {
  std::string text;
  for (const auto& [name, product] : modules_) {
    text += fmt::format("{} {:a}\n", name, product.scale);
  }
  return text;
}

}  // namespace banyan
