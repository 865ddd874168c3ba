#include "model/weight_scales.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

#include "base/error.h"
#include "tensor/narrow_floats.h"
#include "tensor/quantization.h"

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

// One scale per block or per matrix.
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

namespace {

constexpr std::string_view kWeight = "weight";
using ShapeList = std::vector<std::vector<std::int64_t>>;

std::int64_t DividedUp(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

// How many rows and columns a scale is for.
struct ScaledArea {
  std::int64_t rows, columns;
};

// Shapes that the scales of a matrix may have, and what each then scales. A matrix may have as many
// rows as there are blocks of them: then the shapes mean the same.
struct AllowedShapes {
  ShapeList shapes;
  std::vector<ScaledArea> areas;

  AllowedShapes(const WeightScales& scales, std::int64_t rows, std::int64_t columns) {
    if (scales.per_matrix) {
      for (size_t dimensions = 0; dimensions < 3; ++dimensions) {
        Add(std::vector<std::int64_t>(dimensions, 1), {rows, columns});
      }
    }
    if (scales.per_row) {
      Add({rows, 1}, {1, columns});
      Add({rows}, {1, columns});
    }
    if (scales.block_rows > 0) {
      const ScaledArea block{scales.block_rows, scales.block_columns};
      Add({DividedUp(rows, block.rows), DividedUp(columns, block.columns)}, block);
    }
  }

  const ScaledArea* Find(const std::vector<std::int64_t>& shape) const {
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i] == shape) return &areas[i];
    }
    return nullptr;
  }

  std::string Text() const {
    std::string text;
    for (const auto& shape : shapes) text += (text.empty() ? "" : " or ") + ShapeText(shape);
    return text.empty() ? "no scales" : text;
  }

 private:
  void Add(std::vector<std::int64_t> shape, ScaledArea area) {
    shapes.push_back(std::move(shape));
    areas.push_back(area);
  }
};

// Empty: there are none.
std::string ScalesNameOf(const std::string& codes, const TensorStore& store,
                         const WeightScales& scales) {
  const std::string stem = codes.substr(0, codes.size() - kWeight.size());
  for (const std::string& ending : scales.endings) {
    if (store.Has(stem + ending)) return stem + ending;
  }
  return "";
}

void CheckScalesOf(const HostTensor& codes, const TensorStore& store, const WeightScales& scales) {
  const std::string& file = store.FileOf(codes.name);
  const char* type = TraitsOf(codes.dtype).name;
  if (scales.method.empty()) {
    Throw(ErrorKind::kUnsupported,
          "{}: tensor '{}' has element type {}: codes, and config.json has no quantization_config "
          "that names their scales",
          file, codes.name, type);
  }
  const bool matrix = codes.shape.size() == 2 && codes.rows() > 0 && codes.columns() > 0;
  if (!matrix || !codes.name.ends_with(".weight")) {
    Throw(ErrorKind::kUnsupported,
          "{}: tensor '{}' of {} and shape {}: not supported; expected codes only in matrices "
          "whose names end in '.weight'",
          file, codes.name, type, ShapeText(codes.shape));
  }
  const std::string name = ScalesNameOf(codes.name, store, scales);
  if (name.empty()) {
    const std::string stem = codes.name.substr(0, codes.name.size() - kWeight.size());
    Throw(ErrorKind::kFormat, "{}: tensor '{}' of {} has no scales: expected '{}{}', found nothing",
          file, codes.name, type, stem, scales.endings.front());
  }
  const HostTensor& found = store.GetAnyShape(name);
  const AllowedShapes allowed(scales, codes.rows(), codes.columns());
  if (allowed.Find(found.shape) == nullptr) {
    Throw(ErrorKind::kFormat, "{}: tensor '{}', scales of {}: expected shape {}, found {}",
          store.FileOf(name), name, ShapeText(codes.shape), allowed.Text(), ShapeText(found.shape));
  }
}

std::vector<float> FiniteScales(const HostTensor& tensor, const TensorStore& store) {
  std::vector<float> values(static_cast<size_t>(tensor.rows() * tensor.columns()));
  Dequantize(tensor.dtype, tensor.bytes, values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    Throw(ErrorKind::kFormat, "{}: tensor '{}': scale {} is {}, expected a finite number",
          store.FileOf(tensor.name), tensor.name, i, values[i]);
  }
  return values;
}

}  // namespace

bool IsScalesName(std::string_view name) {
  return name.ends_with("_scale") || name.ends_with("_scale_inv");
}

void FindScales(const WeightScales& scales, TensorStore& store) {
  for (const std::string& name : store.Quantized()) {
    CheckScalesOf(store.GetQuantized(name), store, scales);
    store.MarkScaled(name);
  }
}

ScaledTensor ApplyScales(const HostTensor& codes, const TensorStore& store,
                         const WeightScales& scales, Precision precision, ThreadPool& pool) {
  const std::string scales_name = ScalesNameOf(codes.name, store, scales);
  const HostTensor& stored = store.GetAnyShape(scales_name);
  const std::vector<float> factors = FiniteScales(stored, store);
  const std::int64_t rows = codes.rows(), columns = codes.columns();
  const ScaledArea area = *AllowedShapes(scales, rows, columns).Find(stored.shape);
  const std::int64_t across = DividedUp(columns, area.columns);

  std::array<float, 256> values;  // of each code
  std::array<std::byte, 256> all;
  for (size_t code = 0; code < all.size(); ++code) all[code] = static_cast<std::byte>(code);
  Dequantize(codes.dtype, all, values);

  const DType type = precision == Precision::kF32 ? DType::kF32 : DType::kBF16;
  const size_t row_bytes = RowBytes(type, columns);
  ScaledTensor scaled;
  scaled.bytes.resize(static_cast<size_t>(rows) * row_bytes);
  scaled.tensor = {codes.name, type, codes.shape, scaled.bytes};
  std::atomic<std::int64_t> bad_row = rows;  // the first with a value that is not finite
  pool.ForEach(rows, [&](std::int64_t row, int) {
    const std::byte* in = codes.bytes.data() + row * columns;
    const float* line = factors.data() + row / area.rows * across;
    std::byte* out = scaled.bytes.data() + static_cast<size_t>(row) * row_bytes;
    bool finite = true;
    for (std::int64_t c = 0; c < columns; ++c) {
      float value = values[static_cast<size_t>(in[c])] * line[c / area.columns];
      if (type == DType::kF32) {
        std::memcpy(out + 4 * c, &value, 4);
      } else {
        const std::uint16_t half = FloatToBF16(value);
        std::memcpy(out + 2 * c, &half, 2);
        value = BF16ToFloat(half);
      }
      finite &= std::isfinite(value);
    }
    if (finite) return;
    for (std::int64_t first = bad_row; row < first;) {
      if (bad_row.compare_exchange_weak(first, row)) break;
    }
  });
  if (bad_row < rows) {
    Throw(ErrorKind::kFormat, "{}: tensor '{}': row {}: a weight (code times scale) is not finite",
          store.FileOf(codes.name), codes.name, bad_row.load());
  }
  return scaled;
}

}  // namespace banyan
