#include "model/weight_scales.h"

#include <string>
#include <string_view>

#include "base/error.h"

namespace banyan {
namespace {

[[noreturn]] void NotSupported(const JsonFields& fields, const std::string& what) {
  Throw(ErrorKind::kUnsupported,
        "{}: not supported: {}; use the original, an FP8 or INT8 checkpoint, or a GGUF file",
        fields.where(), what);
}

std::string Or(const std::optional<std::string>& text, const char* other) {
  return text.value_or(other);
}

void ReadBlock(const JsonFields& fields, const char* key, WeightScales& scales) {
  const Json* block = fields.Find(key);
  if (block == nullptr || !block->is_array() || block->size() != 2) {
    Throw(ErrorKind::kFormat, "{}: '{}': expected two numbers, found {}", fields.where(), key,
          block == nullptr ? "nothing" : block->dump());
  }
  const int rows = fields.IntOf((*block)[0], key), columns = fields.IntOf((*block)[1], key);
  if (rows < 1 || columns < 1) {
    Throw(ErrorKind::kFormat, "{}: '{}': expected positive numbers, found {} and {}",
          fields.where(), key, rows, columns);
  }
  if (scales.block_rows > 0 && (scales.block_rows != rows || scales.block_columns != columns)) {
    NotSupported(fields, "blocks of different sizes");
  }
  scales.block_rows = rows;
  scales.block_columns = columns;
}

// One of compressed-tensors' groups of layers.
void ReadGroup(const JsonFields& group, WeightScales& scales) {
  const Json* weights = group.Find("weights");
  if (weights == nullptr) return;  // these layers' weights are plain
  const JsonFields fields(*weights, group.where() + ": weights");
  const int bits = fields.GetInt("num_bits");
  const std::string type = Or(fields.FindString("type"), "int");
  if (bits != 8 || (type != "float" && type != "int")) {
    NotSupported(fields, fmt::format("weights of {} bits of type '{}'", bits, type));
  }
  if (!fields.FindBool("symmetric").value_or(true)) NotSupported(fields, "zero points");
  const std::string strategy = Or(fields.FindString("strategy"), "tensor");
  if (strategy == "tensor") {
    scales.per_matrix = true;
  } else if (strategy == "channel") {
    scales.per_row = true;
  } else if (strategy == "block") {
    ReadBlock(fields, "block_structure", scales);
  } else {
    NotSupported(fields, fmt::format("strategy '{}'", strategy));
  }
}

void CheckFormat(const JsonFields& fields) {
  const std::string format = Or(fields.FindString("format"), "float-quantized");
  for (const char* known : {"float-quantized", "int-quantized", "naive-quantized"}) {
    if (format == known) return;
  }
  NotSupported(fields, fmt::format("format '{}' of compressed-tensors", format));
}

WeightScales ReadCompressedTensors(const JsonFields& fields) {
  CheckFormat(fields);
  if (const Json* sparsity = fields.Find("sparsity_config"); sparsity != nullptr) {
    const JsonFields sparse(*sparsity, fields.where() + ": sparsity_config");
    const std::string format = Or(sparse.FindString("format"), "dense");
    if (format != "dense") NotSupported(sparse, fmt::format("format '{}'", format));
  }
  WeightScales scales;
  scales.endings = {"weight_scale"};
  const Json* groups = fields.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    Throw(ErrorKind::kFormat, "{}: 'config_groups': expected an object with groups, found {}",
          fields.where(), groups == nullptr ? "nothing" : groups->dump());
  }
  for (const auto& [name, group] : groups->items()) {
    const JsonFields group_fields(group, fields.where() + ": " + name);
    CheckFormat(group_fields);
    ReadGroup(group_fields, scales);
  }
  return scales;
}

// Blocks, or one scale a matrix, whatever its name: either multiplies the codes.
WeightScales ReadFp8(const JsonFields& fields) {
  const std::string format = Or(fields.FindString("fmt"), "e4m3");
  if (format != "e4m3") NotSupported(fields, fmt::format("fmt '{}'", format));
  WeightScales scales;
  scales.endings = {"weight_scale_inv", "weight_scale"};
  if (fields.Find("weight_block_size") != nullptr) {
    ReadBlock(fields, "weight_block_size", scales);
  } else {
    scales.per_matrix = scales.per_row = true;
  }
  return scales;
}

}  // namespace

WeightScales ReadWeightScales(const JsonFields& quantization) {
  const std::string method = Or(quantization.FindString("quant_method"), "");
  WeightScales scales;
  if (method == "compressed-tensors") {
    scales = ReadCompressedTensors(quantization);
  } else if (method == "fp8") {
    scales = ReadFp8(quantization);
  } else {
    NotSupported(quantization, fmt::format("weights quantised by '{}'",
                                           method.empty() ? "an unnamed method" : method));
  }
  scales.method = method;
  return scales;
}

}  // namespace banyan
