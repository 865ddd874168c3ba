#include "model/adapter.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/safetensors.h"
#include "model/adapter_config.h"

namespace banyan {
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

// "this adapter is for smollm2-135m-instruct (give it with -m); "; empty where nobody says.
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
