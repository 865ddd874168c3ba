#include "model/encoder_config.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "model/config.h"
#include "model/json_fields.h"

namespace banyan {
namespace {

void Validate(const EncoderConfig& config, const std::string& where) {
  CheckRange(config.vocab_size, 1, kMaxWidth, "the vocabulary size", where);
  CheckRange(config.hidden_size, 1, kMaxWidth, "the hidden size", where);
  CheckRange(config.layers, 1, kMaxLayers, "the number of layers", where);
  CheckRange(config.heads, 1, config.hidden_size, "the number of heads", where);
  CheckRange(config.ffn_size, 1, kMaxWidth, "the feed-forward size", where);
  CheckRange(config.position_rows, 1, kMaxWidth, "the number of positions", where);
  CheckRange(config.first_position, 0, config.position_rows - 1, "the first position", where);
  if (config.hidden_size % config.heads != 0) {
    Throw(ErrorKind::kFormat, "{}: {} heads do not divide the hidden size {}", where, config.heads,
          config.hidden_size);
  }
  if (!(config.norm_eps > 0.0f && config.norm_eps < 1.0f)) {
    Throw(ErrorKind::kFormat, "{}: the norm's epsilon is {}, expected a number in (0, 1)", where,
          config.norm_eps);
  }
}

void AddSpecial(std::optional<std::int64_t> id, EncoderConfig& config) {
  if (!id || *id < 0 || *id >= config.vocab_size) return;
  const auto token = static_cast<TokenId>(*id);
  const auto at = std::ranges::lower_bound(config.special_ids, token);
  if (at == config.special_ids.end() || *at != token) config.special_ids.insert(at, token);
}

void RefuseOtherEncoders(const JsonFields& fields) {
  const std::string activation = fields.FindString("hidden_act").value_or("gelu");
  if (activation != "gelu") {
    Throw(ErrorKind::kUnsupported,
          "{}: hidden_act '{}' is not supported in encoders; expected gelu", fields.where(),
          activation);
  }
  const std::string positions = fields.FindString("position_embedding_type").value_or("absolute");
  if (positions != "absolute") {
    Throw(ErrorKind::kUnsupported,
          "{}: position_embedding_type '{}' is not supported; expected absolute", fields.where(),
          positions);
  }
  if (fields.FindBool("is_decoder").value_or(false)) {
    Throw(ErrorKind::kUnsupported, "{}: a decoder of this family is not supported", fields.where());
  }
}

// Whether the network ends in a classifier: as `architectures` says.
bool IsReranker(const JsonFields& fields, const std::string& family) {
  const Json* names = fields.Find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    return false;
  }
  const std::string name = names->front().get<std::string>();
  if (!name.ends_with("ForSequenceClassification")) return false;
  if (family == "bert") {
    Throw(ErrorKind::kUnsupported,
          "{}: architecture '{}' is not supported; rerankers are those of roberta and xlm-roberta",
          fields.where(), name);
  }
  if (const Json* labels = fields.Find("id2label"); labels != nullptr && labels->size() != 1) {
    Throw(ErrorKind::kUnsupported, "{}: a classifier of {} labels: expected a reranker, with one",
          fields.where(), labels->size());
  }
  return true;
}

Pooling ReadPooling(const std::string& text, const std::string& where) {
  const Json json = ParseJson(text, where);
  const JsonFields fields(json, where);
  std::vector<std::string> modes;
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("pooling_mode_") && value == true) modes.push_back(key);
  }
  if (modes == std::vector<std::string>{"pooling_mode_mean_tokens"}) return Pooling::kMean;
  if (modes == std::vector<std::string>{"pooling_mode_cls_token"}) return Pooling::kFirst;
  Throw(ErrorKind::kUnsupported,
        "{}: found pooling by '{}'; supported: pooling_mode_mean_tokens or pooling_mode_cls_token",
        where, fmt::join(modes, ", "));
}

int GgufInt(const GgufFile& gguf, const std::string& key) {
  const std::uint64_t value = gguf.metadata().GetUint(key);
  if (value > static_cast<std::uint64_t>(std::numeric_limits<int>::max())) {
    Throw(ErrorKind::kFormat, "{}: key '{}': expected a 31-bit number, found {}", gguf.path(), key,
          value);
  }
  return static_cast<int>(value);
}

int TableRows(const GgufFile& gguf, const char* tensor) {
  const std::int64_t rows = gguf.tensors().GetAnyShape(tensor).rows();
  return static_cast<int>(std::min<std::int64_t>(rows, std::numeric_limits<int>::max()));
}

}  // namespace

bool IsEncoderFamily(std::string_view model_type) {
  return model_type == "bert" || model_type == "roberta" || model_type == "xlm-roberta";
}

bool IsEncoderArchitecture(std::string_view architecture) { return architecture == "bert"; }

EncoderConfig EncoderConfigFromHuggingFace(const std::string& text, const std::string& pooling,
                                           const std::string& where) {
  const Json json = ParseJson(text, where + "/config.json");
  const JsonFields fields(json, where + "/config.json");
  EncoderConfig config;
  config.family = fields.FindString("model_type").value_or("");
  if (!IsEncoderFamily(config.family)) {
    Throw(ErrorKind::kUnsupported,
          "{}: model_type '{}' is no encoder that is supported; those are {}", fields.where(),
          config.family, kEncoderFamilies);
  }
  RefuseOtherEncoders(fields);
  const bool bert = config.family == "bert";
  config.vocab_size = fields.GetInt("vocab_size");
  config.hidden_size = fields.GetInt("hidden_size");
  config.layers = fields.GetInt("num_hidden_layers");
  config.heads = fields.GetInt("num_attention_heads");
  config.ffn_size = fields.GetInt("intermediate_size");
  config.position_rows = fields.GetInt("max_position_embeddings");
  // RoBERTa counts positions from the one after the padding token's id.
  config.first_position = bert ? 0 : fields.FindInt("pad_token_id").value_or(1) + 1;
  config.norm_eps = static_cast<float>(fields.FindNumber("layer_norm_eps").value_or(1e-12));
  config.reranks = IsReranker(fields, config.family);
  config.pooling = bert ? Pooling::kMean : Pooling::kFirst;
  if (!pooling.empty()) config.pooling = ReadPooling(pooling, where + "/1_Pooling/config.json");
  Validate(config, fields.where());
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    AddSpecial(fields.FindInt(key), config);
  }
  return config;
}

int ReadTextLimit(const std::string& text, const std::string& where) {
  const std::string file = where + "/sentence_bert_config.json";
  const Json json = ParseJson(text, file);
  const int limit = JsonFields(json, file).FindInt("max_seq_length").value_or(0);
  CheckRange(limit, 0, std::numeric_limits<int>::max(), "max_seq_length", file);
  return limit;
}

void CheckSentenceModules(const std::string& text, const std::string& where) {
  const std::string file = where + "/modules.json";
  const Json modules = ParseJson(text, file);
  if (!modules.is_array()) {
    Throw(ErrorKind::kFormat, "{}: expected a list, found {}", file, modules.type_name());
  }
  for (const Json& module : modules) {
    const std::string type = JsonFields(module, file).FindString("type").value_or("");
    const std::string name = type.substr(type.rfind('.') + 1);  // all of it without a dot
    if (name != "Transformer" && name != "Pooling" && name != "Normalize") {
      Throw(ErrorKind::kUnsupported,
            "{}: module '{}' is not supported; supported: Transformer, Pooling, Normalize", file,
            type);
    }
  }
}

void RefuseMoreBlocks(const GgufFile& gguf, const std::string& key, int layers) {
  constexpr std::string_view kBlock = "blk.";
  for (const std::string& name : gguf.tensors().Names()) {
    if (!name.starts_with(kBlock)) continue;
    int block = -1;
    std::from_chars(name.data() + kBlock.size(), name.data() + name.size(), block);
    if (block < layers) continue;
    Throw(ErrorKind::kFormat, "{}: {} is {}: expected no tensor of block {}, found '{}'",
          gguf.path(), key, layers, block, name);
  }
}

EncoderConfig EncoderConfigFromGguf(const GgufFile& gguf) {
  const std::string architecture = gguf.metadata().GetString("general.architecture");
  if (!IsEncoderArchitecture(architecture)) {
    Throw(ErrorKind::kUnsupported,
          "{}: architecture '{}' is no encoder that is supported; expected bert", gguf.path(),
          architecture);
  }
  if (gguf.tensors().Empty()) {
    Throw(ErrorKind::kFormat, "{}: expected a model, found a vocabulary without tensors",
          gguf.path());
  }
  EncoderConfig config;
  const bool xlmr = gguf.metadata().FindString("tokenizer.ggml.model").value_or("bert") == "t5";
  config.family = xlmr ? "xlm-roberta" : "bert";
  config.vocab_size = TableRows(gguf, "token_embd.weight");
  config.hidden_size = GgufInt(gguf, "bert.embedding_length");
  config.layers = GgufInt(gguf, "bert.block_count");
  RefuseMoreBlocks(gguf, "bert.block_count", config.layers);
  config.heads = GgufInt(gguf, "bert.attention.head_count");
  config.ffn_size = GgufInt(gguf, "bert.feed_forward_length");
  // The rows that RoBERTa does not use are left out of these files.
  config.position_rows = TableRows(gguf, "position_embd.weight");
  config.norm_eps =
      static_cast<float>(gguf.metadata().GetFloat("bert.attention.layer_norm_epsilon"));
  config.reranks = gguf.tensors().Has("cls.output.weight");
  config.pooling = xlmr ? Pooling::kFirst : Pooling::kMean;
  switch (gguf.metadata().FindUint("bert.pooling_type").value_or(0)) {
    case 0:  // none: as the family does
      break;
    case 4:
      if (config.reranks) break;
      Throw(ErrorKind::kUnsupported,
            "{}: a reranker without the tensor 'cls.output.weight' is not supported", gguf.path());
    case 1:
      config.pooling = Pooling::kMean;
      break;
    case 2:
      config.pooling = Pooling::kFirst;
      break;
    default:
      Throw(ErrorKind::kUnsupported,
            "{}: key 'bert.pooling_type': expected 0 (none), 1 (mean), 2 (first) or 4 (rank), "
            "found {}",
            gguf.path(), gguf.metadata().GetUint("bert.pooling_type"));
  }
  if (gguf.metadata().FindBool("bert.attention.causal").value_or(false)) {
    Throw(ErrorKind::kUnsupported, "{}: a causal encoder is not supported", gguf.path());
  }
  Validate(config, gguf.path());
  for (const char* name : {"bos", "eos", "padding", "unknown", "seperator", "cls", "mask"}) {
    AddSpecial(gguf.metadata().FindInt(fmt::format("tokenizer.ggml.{}_token_id", name)), config);
  }
  return config;
}

}  // namespace banyan
