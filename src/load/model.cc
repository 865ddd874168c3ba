// Loading a model, and describing one without loading it.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "banyan/model.h"
#include "base/error.h"
#include "base/files.h"
#include "base/machine_limits.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "hub/locate.h"
#include "load/kernel_options.h"
#include "load/model_card.h"
#include "load/model_copies.h"
#include "load/model_identity.h"
#include "load/model_parts.h"
#include "model/adapter.h"
#include "model/rope.h"
#include "model/weight_scales.h"
#include "program/models.h"
#include "tensor/quantization.h"

namespace banyan {
namespace {

// Codebook types: few bits that index int8 values.
bool IsCodebookType(DType type) {
  switch (type) {
    case DType::kIQ1_S:
    case DType::kIQ1_M:
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
      return true;
    default:
      return false;
  }
}

// Bytes of a weight in the cpu backend's mixed form: 16 bits stay, codes of at most four bits take
// half a byte and others one, with a float32 scale (and minimum) for each group. Codes whose scales
// are a tensor of their own become 16 bits.
double PackedBytes(DType type) {
  if (type == DType::kF16 || type == DType::kBF16 || NeedsScales(type)) return 2.0;
  const QuantizedForm form = QuantizedFormOf(type);
  if (form.group == 0) return 4.0;
  const DTypeTraits& traits = TraitsOf(type);
  const double stored = static_cast<double>(traits.bytes) / traits.block;
  const double codes = stored <= 5.0 / 8.0 && !IsCodebookType(type) ? 0.5 : 1.0;
  return codes + 4.0 * (form.has_min ? 2 : 1) / form.group;
}

// Values in a tensor of plain bytes: experts have two in each byte, beside which scales are few.
std::int64_t ValuesIn(const HostTensor& bytes) {
  return bytes.name.ends_with("_blocks") ? 2 * static_cast<std::int64_t>(bytes.bytes.size()) : 0;
}

// Keys and values of one token in all layers.
std::int64_t KvValuesOfToken(const ModelConfig& config) {
  const KvShape shape = KvShapeOf(config);
  std::int64_t values = 0;
  for (int layer = 0; layer < shape.layers; ++layer) {
    values += std::int64_t{2} * shape.Of(layer).heads * shape.Of(layer).dim;
  }
  return values;
}

// Approximate memory of the weights on each device, from the headers of the files alone, without
// activations (packed_matrix.h, weight_forms.h).
std::vector<MemoryNeed> MemoryNeeds(const ModelConfig& config, const TensorStore& tensors) {
  double stored = 0.0, packed = 0.0, values = 0.0;
  for (const std::string& name : tensors.Names()) {
    if (const HostTensor* bytes = tensors.FindBytes(name)) {
      const auto four_bits = static_cast<double>(ValuesIn(*bytes));
      stored += static_cast<double>(bytes->bytes.size());
      packed += four_bits * PackedBytes(DType::kMXFP4);
      values += four_bits;
      continue;
    }
    const HostTensor& tensor = tensors.GetAnyShape(name);
    const auto count = static_cast<double>(tensor.rows() * tensor.columns());
    if (IsScalesName(name)) continue;
    stored += NeedsScales(tensor.dtype) ? 2 * count : static_cast<double>(tensor.bytes.size());
    packed += count * PackedBytes(tensor.dtype);
    values += count;
  }
  const std::int64_t kv = KvValuesOfToken(config);
  const auto bytes = [](double count) { return static_cast<std::int64_t>(count); };
  return {{"cpu, mixed", bytes(packed), 2 * kv},
          {"cpu or cuda, f32", bytes(4 * values), 4 * kv},
          {"cuda, mixed, weights as 16 bits", bytes(2 * values), 2 * kv},
          {"cuda, mixed, weights compact", bytes(stored), 2 * kv}};
}

constexpr size_t kMaxConfigBytes = 16u << 20;

// A model's files, opened: configuration, tensors, text side.
struct OpenedModel {
  ModelFiles files;
  std::unique_ptr<GgufFile> gguf;  // null for Hugging Face directories
  TensorStore safetensors;
  ModelConfig config;
  TensorNaming naming = TensorNaming::kHuggingFace;

  const TensorStore& tensors() const { return gguf ? gguf->tensors() : safetensors; }
};

OpenedModel Open(const std::string& name) {
  OpenedModel model;
  model.files = LocateModel(name);
  if (model.files.kind == ModelKind::kGguf) {
    model.gguf = std::make_unique<GgufFile>(model.files.weights);
    model.naming = TensorNaming::kGguf;
    model.config = ConfigFromGguf(*model.gguf);
    if (model.tensors().Empty()) {
      Throw(ErrorKind::kFormat, "{}: expected a model, found a vocabulary without tensors", name);
    }
    return model;
  }
  const std::string config = ReadTextFile(model.files.config, kMaxConfigBytes);
  const std::string generation = model.files.generation_config
                                     ? ReadTextFile(*model.files.generation_config, kMaxConfigBytes)
                                     : "";
  model.config = ConfigFromHuggingFace(config, generation, model.files.root.string());
  model.safetensors = OpenSafetensors(model.files.weights);
  FindScales(model.config.scales, model.safetensors);
  return model;
}

std::shared_ptr<const Text> OpenText(const OpenedModel& model) {
  if (model.gguf) {
    if (!model.gguf->metadata().Has("tokenizer.ggml.tokens")) return nullptr;
    return MakeText(Tokenizer::FromGguf(*model.gguf));
  }
  if (!model.files.tokenizer) return nullptr;
  return MakeText(Tokenizer::FromHuggingFace(model.files.root));
}

std::optional<ModelCard> OpenCard(const OpenedModel& model) {
  return model.gguf ? ModelCardOfGguf(*model.gguf) : ModelCardOfFolder(model.files.root);
}

// How many values the matrices have, whether the model uses them all or not.
std::int64_t WeightsIn(const TensorStore& tensors) {
  std::int64_t weights = 0;
  for (const std::string& name : tensors.Names()) {
    if (const HostTensor* bytes = tensors.FindBytes(name)) {
      weights += ValuesIn(*bytes);
      continue;
    }
    const HostTensor& tensor = tensors.GetAnyShape(name);
    if (IsScalesName(name)) continue;
    if (tensor.shape.size() > 1) weights += tensor.rows() * tensor.columns();
  }
  return weights;
}

std::string DescribeRope(const RopeConfig& rope, const std::vector<LayerAttention>& layers,
                         int index) {
  static const std::map<RopeKind, const char*> names = {
      {RopeKind::kPlain, "plain"},       {RopeKind::kLinear, "linear"},
      {RopeKind::kLlama3, "llama3"},     {RopeKind::kYarn, "yarn"},
      {RopeKind::kLongRope, "longrope"}, {RopeKind::kProportional, "proportional"}};
  const auto with = std::count_if(layers.begin(), layers.end(),
                                  [&](const LayerAttention& layer) { return layer.rope == index; });
  std::string text = fmt::format("{}, theta {:g}, {} values of a head", names.at(rope.kind),
                                 rope.theta, rope.rotary_dim);
  if (with != static_cast<std::ptrdiff_t>(layers.size())) {
    text += fmt::format(", in {} of {} layers", with, layers.size());
  }
  return text;
}

std::string DescribeRopes(const ModelConfig& config) {
  std::string text;
  for (size_t i = 0; i < config.ropes.size(); ++i) {
    text +=
        (i > 0 ? "; " : "") + DescribeRope(config.ropes[i], config.attention, static_cast<int>(i));
  }
  return text;
}

std::string DescribeWindows(const std::vector<LayerAttention>& layers) {
  int windowed = 0, largest = 0;
  for (const LayerAttention& layer : layers) {
    windowed += layer.window > 0 ? 1 : 0;
    largest = std::max(largest, layer.window);
  }
  if (windowed == 0) return "none";
  return fmt::format("{} tokens in {} of {} layers", largest, windowed, layers.size());
}

}  // namespace

ModelSummary DescribeModel(const std::string& name) {
  const OpenedModel model = Open(name);
  const ModelConfig& config = model.config;
  ModelSummary summary;
  summary.path = model.files.root.string();
  summary.family = config.family;
  summary.layers = config.layers;
  summary.hidden_size = config.hidden_size;
  summary.heads = config.heads;
  summary.kv_heads = config.kv_heads;
  summary.head_dim = config.head_dim;
  summary.ffn_size = config.ffn_size;
  summary.vocab_size = config.vocab_size;
  summary.context_length = config.context_length;
  summary.rope = DescribeRopes(config);
  summary.windows = DescribeWindows(config.attention);
  if (config.states.any()) {
    summary.windows += fmt::format("; {} of {} layers keep a state instead of keys, {:.1f} KiB",
                                   StateLayersBefore(config, config.layers), config.layers,
                                   static_cast<double>(StateBytesOf(config)) / 1024.0);
  }
  summary.kv_bytes_per_token_f16 = 2 * KvValuesOfToken(config);
  summary.memory = MemoryNeeds(config, model.tensors());
  std::map<std::string, std::pair<std::int64_t, int>> types;  // name → bytes, tensors
  for (const std::string& tensor_name : model.tensors().Names()) {
    const HostTensor* plain_bytes = model.tensors().FindBytes(tensor_name);
    const HostTensor& tensor =
        plain_bytes != nullptr ? *plain_bytes : model.tensors().GetAnyShape(tensor_name);
    if (!IsScalesName(tensor_name)) {
      summary.parameters +=
          plain_bytes != nullptr ? ValuesIn(tensor) : tensor.rows() * tensor.columns();
    }
    auto& [bytes, count] = types[plain_bytes != nullptr ? "U8" : TraitsOf(tensor.dtype).name];
    bytes += static_cast<std::int64_t>(tensor.bytes.size());
    ++count;
  }
  std::vector<std::pair<std::int64_t, std::string>> by_bytes;
  for (const auto& [type, size] : types) {
    summary.file_bytes += size.first;
    by_bytes.emplace_back(size.first, fmt::format("{} x {}", type, size.second));
  }
  std::sort(by_bytes.rbegin(), by_bytes.rend());
  for (auto& [bytes, text] : by_bytes) summary.tensor_types.push_back(std::move(text));
  if (const std::shared_ptr<const Text> text = OpenText(model)) {
    summary.tokenizer = text->description();
    summary.has_chat_template = text->has_chat_template();
  }
  if (const auto card = OpenCard(model)) summary.card = card->ToJson();
  return summary;
}

namespace {

// Of --tensor-parallel 0, from the headers of the files and the memory that is free.
int ShardsThatFit(const LoadOptions& options) {
  const std::vector<DeviceName> devices = ParseDevices(options.device);
  if (devices.size() == 1) return 1;
  const OpenedModel model = Open(options.model);
  const std::vector<MemoryNeed> needs = MemoryNeeds(model.config, model.tensors());
  const bool mixed = KernelOptionsOf(options).precision == Precision::kMixed;
  const std::string& backend = devices.front().backend;
  size_t which = 1;  // as MemoryNeeds has them
  if (mixed && backend == "cpu") which = 0;
  if (mixed && backend == "cuda") which = options.weights == "converted" ? 2 : 3;
  return FewestShards(devices, needs[which].weights, [](const DeviceName& device) {
    return FreeMemoryOf(device.backend, device.ordinal).value_or(UsableMemory());
  });
}

}  // namespace

Model::Model(std::vector<std::unique_ptr<Parts>> parts) : parts_(std::move(parts)) {}
Model::~Model() = default;

std::shared_ptr<Model> Model::Load(const LoadOptions& asked) {
  LoadOptions options = asked;
  if (options.tensor_parallel == 0) options.tensor_parallel = ShardsThatFit(options);
  std::vector<std::unique_ptr<Parts>> copies = MakeCopies(options);
  Parts* const parts = copies.front().get();
  OpenedModel model = Open(options.model);
  if (options.yarn_factor > 1.0) {
    const int original = model.config.context_length;
    // Layers with a window and a rope of their own see no further than before.
    RopeConfig& rope = model.config.ropes.front();
    rope = ExtendWithYarn(rope, options.yarn_factor, original);
    model.config.context_length = static_cast<int>(original * options.yarn_factor);
  }
  parts->path = model.files.root.string();
  parts->text = OpenText(model);
  parts->config = std::move(model.config);
  const LoadedAdapters adapters(options);  // for their cards and hashes: loading marks what it took
  LoadCopies(copies, {model.tensors(), model.naming, WeightsIn(model.tensors())}, options);
  parts->end_tokens = parts->config.eos;
  if (parts->text) {
    for (const TokenId id : parts->text->end_tokens()) parts->end_tokens.push_back(id);
  }
  std::sort(parts->end_tokens.begin(), parts->end_tokens.end());
  parts->end_tokens.erase(std::unique(parts->end_tokens.begin(), parts->end_tokens.end()),
                          parts->end_tokens.end());
  const std::deque<Adapter>& apart = adapters.apart;
  const Adapter* const merged = adapters.merged ? &*adapters.merged : nullptr;
  std::vector<AdapterIdentity> identities;
  for (size_t i = 0; i < apart.size(); ++i) {
    identities.push_back({options.adapters[i].name, HashOfAdapter(apart[i], options.threads)});
  }
  parts->SetIdentity(IdentityOf({model.files, model.gguf.get(), model.tensors(), merged,
                                 parts->text.get(), parts->end_tokens},
                                options, parts->kernels->options())
                         .dump(-1, ' ', false, Json::error_handler_t::replace),
                     identities);
  ModelCard& card = parts->variants.front().card = OpenCard(model).value_or(ModelCard());
  if (merged != nullptr) card = CardWithAdapter(card, ModelCardOfFolder(merged->where()));
  for (size_t i = 0; i < apart.size(); ++i) {
    parts->variants[i + 1].card = CardWithAdapter(card, ModelCardOfFolder(apart[i].where()));
  }
  for (size_t i = 1; i < copies.size(); ++i) copies[i]->TakeCommon(*parts);
  return std::shared_ptr<Model>(new Model(std::move(copies)));
}

void Model::Parts::TakeCommon(const Parts& from) {
  path = from.path;
  end_tokens = from.end_tokens;
  text = from.text;
  identity = from.identity;
  fingerprint = from.fingerprint;
  variants = from.variants;
}

void Model::Parts::SetIdentity(std::string json, const std::vector<AdapterIdentity>& apart) {
  identity = std::move(json);
  if (!apart.empty()) {
    Json whole = ParseJson(identity, "the model's identity");
    for (const AdapterIdentity& adapter : apart) whole["adapters"][adapter.name] = adapter.hash;
    identity = whole.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  fingerprint = Sha256().Add(identity).Finish();
  variants.clear();
  const auto add = [this](const AdapterIdentity& adapter) {
    ModelVariant& variant = variants.emplace_back();
    variant.adapter = adapter.name;
    variant.kv_identity = KvIdentityOf(identity, *kernels, adapter.hash);
    variant.kv_name = Sha256().Add(variant.kv_identity).Finish();
  };
  add({});
  for (const AdapterIdentity& adapter : apart) add(adapter);
}

std::int32_t Model::Parts::VariantOf(const std::string& adapter) const {
  std::string names;
  for (size_t i = 0; i < variants.size(); ++i) {
    if (variants[i].adapter == adapter) return static_cast<std::int32_t>(i);
    if (i > 0) names += (names.empty() ? "" : ", ") + variants[i].adapter;
  }
  Throw(ErrorKind::kInput, "no adapter '{}': {}", adapter,
        names.empty() ? "the model was loaded without any to choose from"
                      : "the model was loaded with " + names);
}

std::vector<std::string> Model::adapters() const {
  std::vector<std::string> names;
  for (const ModelVariant& variant : parts().variants) {
    if (!variant.adapter.empty()) names.push_back(variant.adapter);
  }
  return names;
}

const ModelCard& Model::card(const std::string& adapter) const {
  return parts().variants[static_cast<size_t>(parts().VariantOf(adapter))].card;
}

int Model::vocab_size() const { return parts().config.vocab_size; }
int Model::context_length() const { return parts().config.context_length; }
const std::vector<TokenId>& Model::end_tokens() const { return parts().end_tokens; }
std::shared_ptr<const Text> Model::text() const { return parts().text; }

std::string Model::backend_name() const {
  std::vector<std::pair<std::string, int>> names;  // one after another, and how many are alike
  for (const auto& copy : parts_) {
    const std::string name = copy->kernels->name();
    if (names.empty() || names.back().first != name) names.emplace_back(name, 0);
    ++names.back().second;
  }
  std::string text;
  for (const auto& [name, count] : names) {
    if (!text.empty()) text += " + ";
    text += count == 1 ? name : fmt::format("{} x {}", count, name);
  }
  return text;
}

std::vector<std::string> Model::devices() const {
  std::vector<std::string> names;
  for (const auto& copy : parts_) names.push_back(copy->device.name);
  return names;
}

std::int64_t Model::weight_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& copy : parts_) bytes += copy->weights.bytes;
  return bytes;
}

double Model::flops_per_second() const {
  parts().kernels->EnterThread();
  return parts().Rates().flops_per_second;
}
double Model::bytes_per_second() const {
  parts().kernels->EnterThread();
  return parts().Rates().bytes_per_second;
}
std::string Model::fingerprint() const { return ToHex(parts().fingerprint); }
const std::string& Model::identity() const { return parts().identity; }

bool Model::keeps_states() const { return parts().config.states.any(); }

bool Model::exact() const { return !parts().kernels->options().fast; }

std::string Model::precision() const {
  const KernelOptions& options = parts().kernels->options();
  const char* mixed = options.eight_bit_products ? "w8a8" : "mixed";
  return fmt::format("{}, kv {}{}", options.precision == Precision::kF32 ? "f32" : mixed,
                     KvTypeName(options.kv_type), options.fast ? ", fast" : "");
}

}  // namespace banyan
