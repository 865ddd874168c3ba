#include "load/model_identity.h"

#include <sys/stat.h>

#include <fmt/format.h>
#include <algorithm>
#include <ctime>
#include <set>

#include "base/decision_file.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "load/device_list.h"
#include "load/kernel_options.h"
#include "load/model_card.h"
#include "load/model_parts.h"
#include "model/forward.h"

namespace banyan {
namespace {

constexpr size_t kMaxTextBytes = 256u << 20;
// Less than this is read faster than remembered.
constexpr size_t kRememberedBytes = 64u << 20;
// A file that was written just now may be written again within the resolution of its times.
constexpr std::int64_t kRestSeconds = 3;

std::string HashOf(std::string_view text) { return ToHex(ContentHash().Add(text).Value()); }

// What changes when a file does; empty when that cannot be told.
std::string StampOf(const std::vector<std::string>& files) {
  Sha256 hash;
  for (const std::string& file : files) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) return "";
    const std::int64_t changed = std::max(status.st_mtim.tv_sec, status.st_ctim.tv_sec);
    if (std::time(nullptr) - changed < kRestSeconds) return "";
    hash.Add(static_cast<std::uint64_t>(file.size())).Add(file);
    for (const auto number :
         {static_cast<std::int64_t>(status.st_dev), static_cast<std::int64_t>(status.st_ino),
          static_cast<std::int64_t>(status.st_size),
          static_cast<std::int64_t>(status.st_mtim.tv_sec),
          static_cast<std::int64_t>(status.st_mtim.tv_nsec),
          static_cast<std::int64_t>(status.st_ctim.tv_sec),
          static_cast<std::int64_t>(status.st_ctim.tv_nsec)}) {
      hash.Add(static_cast<std::uint64_t>(number));
    }
  }
  return ToHex(hash.Finish());
}

// All bytes are loaded: `progress`, which may be empty, hears that after every tensor, and may
// throw.
std::string HashWeights(const TensorStore& tensors, int threads,
                        const LoadProgress& progress = {}) {
  ThreadPool pool(threads);
  Sha256 hash;
  for (const std::string& name : tensors.Names()) {
    const HostTensor* tensor = tensors.FindBytes(name);
    try {
      if (tensor == nullptr) tensor = &tensors.GetAnyShape(name);
    } catch (const Error&) {
      continue;  // it cannot be read, so it changes nothing
    }
    hash.Add(static_cast<std::uint64_t>(name.size())).Add(name);
    hash.Add(static_cast<std::uint64_t>(tensor->dtype)).Add(tensor->shape.size());
    for (const std::int64_t size : tensor->shape) hash.Add(static_cast<std::uint64_t>(size));
    const ContentKey key = HashInParallel(tensor->bytes, pool);
    hash.Add(key[0]).Add(key[1]);
    if (progress) progress(tensors.TotalBytes(), tensors.TotalBytes());
  }
  return ToHex(hash.Finish()).substr(0, 32);
}

std::string WeightsIdentity(const TensorStore& tensors, const LoadOptions& options) {
  const std::filesystem::path cache = CacheDirectory();
  const std::vector<std::string> files = tensors.Files();
  if (cache.empty() || files.empty() || tensors.TotalBytes() < kRememberedBytes) {
    return HashWeights(tensors, options.threads, options.progress);
  }
  const std::string stamp = StampOf(files);
  DecisionFile remembered(cache / "weights.txt", "hashes of weights 1");
  const std::string key = HashOf(files.front());  // a path may have any character
  if (const auto found = remembered.Find(key);
      found && !stamp.empty() && found->starts_with(stamp + " ")) {
    return found->substr(stamp.size() + 1);
  }
  const std::string hash = HashWeights(tensors, options.threads, options.progress);
  // Unless the file changed meanwhile.
  if (!stamp.empty() && StampOf(files) == stamp) remembered.Keep(key, stamp + " " + hash);
  return hash;
}

void AddGgufValue(Sha256& hash, const std::string& key, const GgufMetadata::Value& value) {
  hash.Add(static_cast<std::uint64_t>(key.size())).Add(key);
  hash.Add(static_cast<std::uint64_t>(value.type)).Add(value.is_array ? value.count : 0);
  hash.Add(static_cast<std::uint64_t>(value.bytes.size())).Add(value.bytes);
}

Json GgufScalar(const GgufFile& gguf, const std::string& key, const GgufMetadata::Value& value) {
  using Type = GgufMetadata::ValueType;
  if (!value.is_array) {
    if (value.type == Type::kString) return *gguf.metadata().FindString(key);
    if (value.type == Type::kBool) return *gguf.metadata().FindBool(key);
    if (value.type == Type::kFloat32 || value.type == Type::kFloat64)
      return *gguf.metadata().FindFloat(key);
    if (value.type == Type::kUint64) return *gguf.metadata().FindUint(key);
    return *gguf.metadata().FindInt(key);
  }
  Sha256 hash;
  AddGgufValue(hash, key, value);
  return fmt::format("{} values, {}", value.count, ToHex(hash.Finish()).substr(0, 16));
}

// The file's keys: those of the tokenizer as one hash, the others as settings. The general ones are
// a title page, but for the architecture. What a card says is a parameter of the job that heeds it.
void AddGguf(const GgufFile& gguf, Json& identity) {
  Sha256 tokenizer;
  for (const std::string& key : gguf.metadata().Keys()) {
    const GgufMetadata::Value& value = *gguf.metadata().Find(key);
    if (key.starts_with("tokenizer.")) {
      if (key != "tokenizer.chat_template") AddGgufValue(tokenizer, key, value);
    } else if (key != kModelCardKey &&
               (!key.starts_with("general.") || key == "general.architecture")) {
      identity["config " + key] = GgufScalar(gguf, key, value);
    }
  }
  identity["tokenizer"] = ToHex(tokenizer.Finish()).substr(0, 32);
}

void AddHuggingFace(const ModelFiles& files, Json& identity) {
  static const std::set<std::string> title_page = {"_name_or_path", "transformers_version"};
  const Json config = ParseJson(ReadTextFile(files.config, kMaxTextBytes), files.config.string());
  for (const auto& [key, value] : config.items()) {
    if (!title_page.contains(key)) identity["config " + key] = value;
  }
  ContentHash tokenizer;
  if (files.tokenizer) tokenizer.Add(ReadTextFile(*files.tokenizer, kMaxTextBytes));
  if (files.tokenizer_config) {
    Json settings = ParseJson(ReadTextFile(*files.tokenizer_config, kMaxTextBytes),
                              files.tokenizer_config->string());
    if (settings.is_object()) settings.erase("chat_template");
    tokenizer.Add(settings.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  identity["tokenizer"] = ToHex(tokenizer.Value());
}

}  // namespace

Json IdentityOf(const IdentitySource& source, const LoadOptions& options,
                const KernelOptions& kernel_options) {
  Json identity;
  if (source.gguf != nullptr) {
    AddGguf(*source.gguf, identity);
  } else {
    AddHuggingFace(source.files, identity);
  }
  identity["weights"] = WeightsIdentity(source.tensors, options);
  if (source.adapter != nullptr) {
    identity["adapter"] = HashOfAdapter(*source.adapter, options.threads);
  }
  identity["chat template"] =
      source.text == nullptr ? "" : HashOf(source.text->parts().tokenizer->chat_template());
  identity["end tokens"] = source.end_tokens;
  identity["device"] = BackendOf(options.device);
  identity["precision"] = options.precision;
  // Products of the cpu backend with quantised weights.
  if (BackendOf(options.device) == "cpu" && kernel_options.precision == Precision::kMixed) {
    identity["activations"] = "8 bits, a scale per 32";
  }
  identity["kv type"] = KvTypeName(kernel_options.kv_type);
  identity["fast"] = kernel_options.fast;
  identity["yarn factor"] = options.yarn_factor > 1.0 ? options.yarn_factor : 1.0;
  return identity;
}

std::string HashOfAdapter(const Adapter& adapter, int threads) {
  return HashOf(HashWeights(adapter.tensors(), threads) + "\n" + adapter.Settings());
}

std::vector<std::string> FilesOfModel(const std::string& model) {
  static const std::set<std::string> names = {
      "config.json",           "generation_config.json",  "tokenizer.json",
      "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja",
      "tokenizer.model",       "added_tokens.json",       "model.safetensors.index.json",
      kModelCardFile};
  const ModelFiles files = LocateModel(model);
  std::error_code none;
  const bool is_directory = std::filesystem::is_directory(files.root, none);
  const std::filesystem::path folder = is_directory ? files.root : files.root.parent_path();
  // Parts of a split GGUF file are NAME-00001-of-00003.gguf.
  const std::string name = files.root.filename().string();
  const std::string parts = name.substr(0, name.find("-00001-of-"));
  std::vector<std::string> found;
  if (!is_directory) found.push_back(files.root.string());
  for (const auto& entry : std::filesystem::directory_iterator(
           folder.empty() ? std::filesystem::path(".") : folder, none)) {
    const std::string other = entry.path().filename().string();
    const bool belongs = is_directory
                             ? other.ends_with(".safetensors") || names.contains(other)
                             : parts != name && other != name && other.starts_with(parts + "-") &&
                                   other.ends_with(".gguf");
    if (belongs && entry.is_regular_file(none)) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string KvIdentityOf(const std::string& identity, const Kernels& kernels,
                         const std::string& adapter) {
  Json json = ParseJson(identity, "the model's identity");
  for (const char* text_side : {"tokenizer", "chat template", "end tokens"}) json.erase(text_side);
  json.erase("adapters");
  if (!adapter.empty()) json["adapter kept apart"] = adapter;
  json["arithmetic version"] = kArithmeticVersion;
  if (kernels.options().eight_bit_products) json["products in 8 bits"] = "experts included";
  json["arithmetic"] = kernels.arithmetic();
  json["platform"] = ArithmeticPlatform();
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace banyan
