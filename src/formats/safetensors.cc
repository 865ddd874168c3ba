// Headers and indexes of safetensors files.
#include "formats/safetensors.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "formats/byte_reader.h"
#include "formats/file_headers.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference reader
constexpr size_t kMaxIndexBytes = 100'000'000;
constexpr size_t kMaxFiles = 4096;
constexpr size_t kMostDimensions = 8;

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::string tensor;
};

std::uint64_t UintOf(const Json& value, const std::string& where, const char* what) {
  if (!value.is_number_unsigned()) {
    Throw(ErrorKind::kFormat, "{}: expected {} to be an unsigned integer, found {}", where, what,
          value.type_name());
  }
  return value.get<std::uint64_t>();
}

const Json& FieldOf(const Json& object, const char* key, Json::value_t type,
                    const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->type() != type) {
    Throw(ErrorKind::kFormat, "{}: expected '{}' to be {}, found {}", where, key,
          Json(type).type_name(), found == object.end() ? "nothing" : found->type_name());
  }
  return *found;
}

std::optional<DType> DTypeOf(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "F16") return DType::kF16;
  if (name == "BF16") return DType::kBF16;
  if (name == "F8_E4M3") return DType::kF8_E4M3;
  if (name == "I8") return DType::kI8;
  return std::nullopt;
}

// Reads one entry of the header into `store` and returns the bytes that it takes of `data`.
ByteRange ReadEntry(const std::string& tensor_name, const Json& entry,
                    std::span<const std::byte> data, const std::string& file, TensorStore& store) {
  const std::string where = fmt::format("{}: tensor '{}'", file, tensor_name);
  if (!entry.is_object()) {
    Throw(ErrorKind::kFormat, "{}: expected an object, found {}", where, entry.type_name());
  }
  const auto& type_name =
      FieldOf(entry, "dtype", Json::value_t::string, where).get_ref<const std::string&>();
  const Json& shape_json = FieldOf(entry, "shape", Json::value_t::array, where);
  const Json& offsets = FieldOf(entry, "data_offsets", Json::value_t::array, where);
  if (offsets.size() != 2 || shape_json.size() > kMostDimensions) {
    Throw(ErrorKind::kFormat,
          "{}: expected 2 data_offsets and at most {} dimensions, found {} and {}", where,
          kMostDimensions, offsets.size(), shape_json.size());
  }
  ByteRange range{UintOf(offsets[0], where, "data_offsets"),
                  UintOf(offsets[1], where, "data_offsets"), tensor_name};
  if (range.begin > range.end || range.end > data.size()) {
    Throw(ErrorKind::kFormat, "{}: data_offsets {} to {} lie outside the file's {} bytes of data",
          where, range.begin, range.end, data.size());
  }
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 1;
  std::uint64_t extents = 1;  // their product with 1 for 0, so that no partial product overflows
  for (const Json& extent_json : shape_json) {
    constexpr std::uint64_t kLimit = std::numeric_limits<std::int64_t>::max() / 64;
    const std::uint64_t extent = UintOf(extent_json, where, "each dimension");
    if (extent > kLimit / extents) {
      Throw(ErrorKind::kFormat, "{}: a dimension of {} makes it too large", where, extent);
    }
    extents *= std::max<std::uint64_t>(extent, 1);
    elements *= extent;
    shape.push_back(static_cast<std::int64_t>(extent));
  }
  const std::uint64_t size = range.end - range.begin;
  const std::optional<DType> dtype = DTypeOf(type_name);
  const bool plain_bytes = type_name == "U8";
  if (!dtype && !plain_bytes) {
    store.AddUnsupported(tensor_name, type_name, static_cast<size_t>(size), file);
    return range;
  }
  const int element = dtype ? TraitsOf(*dtype).bytes : 1;
  const std::uint64_t needed = elements * static_cast<std::uint64_t>(element);
  if (needed != size) {
    Throw(ErrorKind::kFormat, "{}: {} of shape {} needs {} bytes, data_offsets {} to {} give {}",
          where, type_name, ShapeText(shape), needed, range.begin, range.end, size);
  }
  const auto bytes = data.subspan(static_cast<size_t>(range.begin), static_cast<size_t>(size));
  if (dtype) {
    store.Add({tensor_name, *dtype, std::move(shape), bytes}, file);
  } else {
    store.AddBytes({tensor_name, DType::kF32, std::move(shape), bytes}, file);
  }
  return range;
}

// The format demands that the tensors fill the data without overlap and without gap.
void CheckRanges(std::vector<ByteRange> ranges, size_t data_size, const std::string& file) {
  std::ranges::sort(ranges, {}, [](const ByteRange& r) { return std::pair(r.begin, r.end); });
  std::uint64_t position = 0;
  for (const ByteRange& range : ranges) {
    if (range.begin != position) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}' starts at data byte {}, expected {} ({})", file,
            range.tensor, range.begin, position, range.begin < position ? "overlap" : "gap");
    }
    position = range.end;
  }
  if (position != data_size) {
    Throw(ErrorKind::kFormat, "{}: the tensors end at data byte {}, the file's data has {}", file,
          position, data_size);
  }
}

std::uint64_t ReadHeaderSize(ByteReader& reader, const std::string& file) {
  const auto header_size = reader.Read<std::uint64_t>("the header's length");
  if (header_size > kMaxHeaderBytes) {
    Throw(ErrorKind::kFormat,
          "{}: not a safetensors file: a header of {} bytes, expected at most {}", file,
          header_size, kMaxHeaderBytes);
  }
  return header_size;
}

void ReadInto(TensorStore& store, std::span<const std::byte> bytes, const std::string& file) {
  ByteReader reader(bytes, file);
  const std::uint64_t header_size = ReadHeaderSize(reader, file);
  const auto text = reader.Take(header_size, "the header");
  const auto data = bytes.subspan(reader.position());
  const Json header =
      ParseJson({reinterpret_cast<const char*>(text.data()), text.size()}, file + ": header");
  if (!header.is_object()) {
    Throw(ErrorKind::kFormat, "{}: header: expected an object, found {}", file, header.type_name());
  }
  std::vector<ByteRange> ranges;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    ranges.push_back(ReadEntry(name, entry, data, file, store));
  }
  CheckRanges(std::move(ranges), data.size(), file);
}

TensorStore OpenFile(const fs::path& path) {
  TensorStore store;
  const auto bytes = store.AddFile(MappedFile(path));
  ReadInto(store, bytes, path.string());
  return store;
}

// The file of each tensor of an index's text.
std::map<std::string, std::string> FilesOfTensors(const std::string& text,
                                                  const std::string& where) {
  const Json index = ParseJson(text, where);
  if (!index.is_object()) {
    Throw(ErrorKind::kFormat, "{}: expected an object, found {}", where, index.type_name());
  }
  const Json& weight_map = FieldOf(index, "weight_map", Json::value_t::object, where);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : weight_map.items()) {
    if (!file.is_string()) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}': expected a file name, found {}", where, tensor,
            file.type_name());
    }
    const auto& name = file.get_ref<const std::string&>();
    if (name.find('/') != std::string::npos || name.find('\0') != std::string::npos ||
        !name.ends_with(".safetensors")) {
      Throw(ErrorKind::kFormat,
            "{}: tensor '{}': expected a .safetensors file beside the index, found '{}'", where,
            tensor, name);
    }
    files[tensor] = name;
  }
  return files;
}

TensorStore OpenIndex(const fs::path& path) {
  const std::string where = path.string(), text = ReadTextFile(path, kMaxIndexBytes);
  TensorStore store;
  for (const std::string& file : ShardsOfIndex(text, where)) {
    store.Absorb(OpenFile(path.parent_path() / file));
  }
  for (const auto& [tensor, file] : FilesOfTensors(text, where)) {
    if (!store.Has(tensor)) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}' is not in {}", where, tensor, file);
    }
  }
  return store;
}

}  // namespace

std::optional<size_t> SafetensorsHeaderBytes(std::span<const std::byte> beginning,
                                             const std::string& name) {
  if (beginning.size() < sizeof(std::uint64_t)) return std::nullopt;
  ByteReader reader(beginning, name);
  return static_cast<size_t>(ReadHeaderSize(reader, name)) + reader.position();
}

std::set<std::string> ShardsOfIndex(const std::string& text, const std::string& where) {
  std::set<std::string> shards;
  for (const auto& [tensor, file] : FilesOfTensors(text, where)) {
    shards.insert(file);
    if (shards.size() > kMaxFiles) {
      Throw(ErrorKind::kLimit, "{}: more than {} files", where, kMaxFiles);
    }
  }
  return shards;
}

TensorStore OpenSafetensors(const fs::path& path) {
  if (fs::is_directory(path)) {
    const fs::path index = path / "model.safetensors.index.json";
    const fs::path single = path / "model.safetensors";
    if (fs::exists(index)) return OpenIndex(index);
    if (fs::exists(single)) return OpenFile(single);
    Throw(ErrorKind::kNotFound, "{}: expected model.safetensors or model.safetensors.index.json",
          path.string());
  }
  if (path.extension() == ".json") return OpenIndex(path);
  return OpenFile(path);
}

TensorStore ReadSafetensors(std::span<const std::byte> bytes, const std::string& name) {
  TensorStore store;
  ReadInto(store, bytes, name);
  return store;
}

}  // namespace banyan
