// The structure of a GGUF file: header, metadata (gguf_metadata.h), tensor list, data.
#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.h"
#include "formats/byte_reader.h"
#include "formats/file_headers.h"

namespace banyan {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint64_t kMaxNameBytes = 1024;
constexpr std::uint32_t kMaxDimensions = 4;
constexpr std::uint64_t kMaxParts = 4096;
// The smallest encoding: name length, dimension count, type and offset.
constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

struct TensorTypeEntry {
  std::uint32_t number;
  const char* name;
  std::optional<DType> dtype;
};

// GGUF's numbers of element types. Types without a dtype are known by name only.
constexpr std::array<TensorTypeEntry, 36> kTensorTypes = {{
    {0, "F32", DType::kF32},          {1, "F16", DType::kF16},
    {2, "Q4_0", DType::kQ4_0},        {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", DType::kQ5_0},        {7, "Q5_1", DType::kQ5_1},
    {8, "Q8_0", DType::kQ8_0},        {9, "Q8_1", std::nullopt},
    {10, "Q2_K", DType::kQ2_K},       {11, "Q3_K", DType::kQ3_K},
    {12, "Q4_K", DType::kQ4_K},       {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},       {15, "Q8_K", DType::kQ8_K},
    {16, "IQ2_XXS", DType::kIQ2_XXS}, {17, "IQ2_XS", DType::kIQ2_XS},
    {18, "IQ3_XXS", DType::kIQ3_XXS}, {19, "IQ1_S", DType::kIQ1_S},
    {20, "IQ4_NL", DType::kIQ4_NL},   {21, "IQ3_S", DType::kIQ3_S},
    {22, "IQ2_S", DType::kIQ2_S},     {23, "IQ4_XS", DType::kIQ4_XS},
    {24, "I8", std::nullopt},         {25, "I16", std::nullopt},
    {26, "I32", std::nullopt},        {27, "I64", std::nullopt},
    {28, "F64", std::nullopt},        {29, "IQ1_M", DType::kIQ1_M},
    {30, "BF16", DType::kBF16},       {31, "Q4_0_4_4", std::nullopt},
    {32, "Q4_0_4_8", std::nullopt},   {33, "Q4_0_8_8", std::nullopt},
    {34, "TQ1_0", DType::kTQ1_0},     {35, "TQ2_0", DType::kTQ2_0},
    {39, "MXFP4", DType::kMXFP4},     {40, "NVFP4", std::nullopt},
}};

std::string TensorTypeName(std::uint32_t number) {
  for (const TensorTypeEntry& entry : kTensorTypes) {
    if (entry.number == number) return entry.name;
  }
  return fmt::format("number {}", number);
}

std::optional<DType> DTypeOf(std::uint32_t number) {
  for (const TensorTypeEntry& entry : kTensorTypes) {
    if (entry.number == number) return entry.dtype;
  }
  return std::nullopt;
}

struct TensorEntry {
  std::string name;
  std::vector<std::int64_t> shape;  // outermost first
  std::int64_t elements = 1;
  std::uint32_t type = 0;
  std::uint64_t offset = 0;  // bytes from the start of the data
};

TensorEntry ReadTensorEntry(ByteReader& reader, const std::string& path) {
  TensorEntry entry;
  entry.name = reader.ReadString("a tensor's name");
  if (entry.name.empty() || entry.name.size() > kMaxNameBytes) {
    Throw(ErrorKind::kFormat, "{}: a tensor's name has {} bytes, expected 1 to {}", path,
          entry.name.size(), kMaxNameBytes);
  }
  const auto dimensions = reader.Read<std::uint32_t>("the number of dimensions");
  if (dimensions > kMaxDimensions) {
    Throw(ErrorKind::kFormat, "{}: tensor '{}' has {} dimensions, expected at most {}", path,
          entry.name, dimensions, kMaxDimensions);
  }
  entry.shape.resize(dimensions);
  std::uint64_t extents = 1;  // their product with 1 for 0, so that no partial product overflows
  for (size_t i = dimensions; i-- > 0;) {  // stored innermost first
    constexpr std::uint64_t kLimit = std::numeric_limits<std::int64_t>::max() / 64;
    const auto extent = reader.Read<std::uint64_t>("a dimension");
    if (extent > kLimit / extents) {
      Throw(ErrorKind::kFormat, "{}: tensor '{}': a dimension of {} makes it too large", path,
            entry.name, extent);
    }
    extents *= std::max<std::uint64_t>(extent, 1);
    entry.shape[i] = static_cast<std::int64_t>(extent);
    entry.elements *= entry.shape[i];
  }
  entry.type = reader.Read<std::uint32_t>("a tensor's type");
  entry.offset = reader.Read<std::uint64_t>("a tensor's offset");
  return entry;
}

// Reads metadata and tensor list.
std::vector<TensorEntry> ReadHeader(ByteReader& reader, std::span<const std::byte> bytes,
                                    GgufMetadata& metadata) {
  const std::string& path = metadata.path();
  if (const auto magic = reader.Read<std::uint32_t>("the magic number"); magic != kMagic) {
    Throw(ErrorKind::kFormat, "{}: not a GGUF file: expected it to start with 'GGUF'", path);
  }
  const auto version = reader.Read<std::uint32_t>("the version");
  if (version != 2 && version != 3) {
    const bool swapped = version == 0x02000000u || version == 0x03000000u;
    Throw(ErrorKind::kUnsupported, "{}: expected GGUF version 2 or 3, found {}", path,
          swapped ? std::string("a big-endian file") : fmt::format("{}", version));
  }
  const auto tensor_count = reader.Read<std::uint64_t>("the number of tensors");
  const auto value_count = reader.Read<std::uint64_t>("the number of metadata values");
  metadata.Read(reader, bytes, value_count);

  reader.CheckCount(tensor_count, kMinTensorBytes, "the number of tensors");
  std::vector<TensorEntry> entries;
  entries.reserve(static_cast<size_t>(tensor_count));
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    entries.push_back(ReadTensorEntry(reader, path));
  }
  return entries;
}

struct DataRange {
  std::uint64_t begin, end;  // of the data
  std::string name;
};

// Two tensors with bytes in common are damage: one of them has the other's numbers.
void RefuseOverlaps(std::vector<DataRange> ranges, const std::string& path) {
  std::erase_if(ranges, [](const DataRange& range) { return range.begin == range.end; });
  std::ranges::sort(ranges, {}, &DataRange::begin);
  for (size_t i = 1; i < ranges.size(); ++i) {
    const DataRange &before = ranges[i - 1], &after = ranges[i];
    if (after.begin >= before.end) continue;
    Throw(ErrorKind::kFormat,
          "{}: tensors '{}' and '{}' overlap: expected the second after byte {} of the data, found "
          "it at {}",
          path, before.name, after.name, before.end, after.begin);
  }
}

// Returns where it lies; of a type that cannot be read, nothing.
DataRange AddTensor(TensorEntry entry, std::span<const std::byte> data, std::uint64_t alignment,
                    const std::string& path, TensorStore& store) {
  if (entry.offset % alignment != 0 || entry.offset > data.size()) {
    Throw(ErrorKind::kFormat,
          "{}: tensor '{}' starts at byte {} of the data; expected a multiple of {} and at most {}",
          path, entry.name, entry.offset, alignment, data.size());
  }
  const std::optional<DType> dtype = DTypeOf(entry.type);
  if (!dtype) {
    store.AddUnsupported(entry.name, TensorTypeName(entry.type), 0, path);
    return {};
  }
  const DTypeTraits& traits = TraitsOf(*dtype);
  const std::int64_t columns = entry.shape.empty() ? 1 : entry.shape.back();
  if (columns % traits.block != 0) {
    Throw(ErrorKind::kFormat,
          "{}: tensor '{}': rows of {} values, expected a multiple of {} for {}", path, entry.name,
          columns, traits.block, traits.name);
  }
  const size_t size = RowBytes(*dtype, entry.elements);
  if (size > data.size() - entry.offset) {
    Throw(ErrorKind::kFormat,
          "{}: cut short: tensor '{}' needs {} bytes at byte {} of the data, which has {}", path,
          entry.name, size, entry.offset, data.size());
  }
  DataRange range{entry.offset, entry.offset + size, entry.name};
  HostTensor tensor{std::move(entry.name), *dtype, std::move(entry.shape),
                    data.subspan(static_cast<size_t>(entry.offset), size)};
  store.Add(std::move(tensor), path);
  return range;
}

// "model-00001-of-00003.gguf", 2 → "model-00002-of-00003.gguf"; empty when the name is not of that
// form for `count` parts.
std::string PartName(const std::string& first, std::uint64_t number, std::uint64_t count) {
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (!first.ends_with(ending)) return "";
  return first.substr(0, first.size() - ending.size()) +
         fmt::format("-{:05}-of-{:05}.gguf", number, count);
}

}  // namespace

std::optional<size_t> GgufHeaderBytes(std::span<const std::byte> beginning,
                                      const std::string& name) {
  constexpr size_t kFixedBytes = 4 + 4 + 8 + 8;  // magic, version, two counts
  if (beginning.size() < kFixedBytes) return std::nullopt;
  ByteReader reader(beginning, name);
  GgufMetadata metadata(name);
  try {
    ReadHeader(reader, beginning, metadata);
    return reader.position();
  } catch (const Error& e) {
    // What is no GGUF file at all is known by its first bytes; anything else may be missing.
    const bool is_gguf = std::memcmp(beginning.data(), "GGUF", 4) == 0;
    if (!is_gguf || e.kind() != ErrorKind::kFormat) throw;
    return std::nullopt;
  }
}

GgufFile::GgufFile(const std::filesystem::path& path) : metadata_(path.string()) {
  Parse(tensors_.AddFile(MappedFile(path)));
  OpenOtherParts();
}

GgufFile::GgufFile(std::span<const std::byte> bytes, std::string name)
    : metadata_(std::move(name)) {
  Parse(bytes);
  if (metadata_.FindUint("split.count").value_or(1) > 1) {
    Throw(ErrorKind::kUnsupported, "{}: one part of a split model, without the others", path());
  }
}

void GgufFile::Parse(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, path());
  std::vector<TensorEntry> entries = ReadHeader(reader, bytes, metadata_);

  const std::uint64_t alignment = metadata_.FindUint("general.alignment").value_or(32);
  if (alignment == 0 || alignment > (1u << 20) || (alignment & (alignment - 1)) != 0) {
    Throw(ErrorKind::kFormat, "{}: general.alignment is {}, expected a power of two up to 2^20",
          path(), alignment);
  }
  if (entries.empty()) return;  // a vocabulary: no data follows
  const std::uint64_t start = (reader.position() + alignment - 1) / alignment * alignment;
  if (start > bytes.size()) {
    Throw(ErrorKind::kFormat, "{}: cut short: data should start at byte {}, the file has {} bytes",
          path(), start, bytes.size());
  }
  const auto data = bytes.subspan(static_cast<size_t>(start));
  std::vector<DataRange> ranges;
  for (TensorEntry& entry : entries) {
    ranges.push_back(AddTensor(std::move(entry), data, alignment, path(), tensors_));
  }
  RefuseOverlaps(std::move(ranges), path());
}

void GgufFile::OpenOtherParts() {
  const std::uint64_t count = metadata_.FindUint("split.count").value_or(1);
  if (count <= 1) return;
  const std::uint64_t number = metadata_.FindUint("split.no").value_or(0);
  if (number != 0) {
    Throw(ErrorKind::kUsage, "{}: part {} of {} of a split model; open the first part", path(),
          number + 1, count);
  }
  if (count > kMaxParts || PartName(path(), 1, count).empty()) {
    Throw(ErrorKind::kFormat, "{}: a model of {} parts; expected a name like x-00001-of-{:05}.gguf",
          path(), count, count);
  }
  for (std::uint64_t part = 2; part <= count; ++part) {
    GgufFile other;
    other.metadata_ = GgufMetadata(PartName(path(), part, count));
    other.Parse(other.tensors_.AddFile(MappedFile(other.path())));
    const std::uint64_t found = other.metadata_.FindUint("split.no").value_or(0);
    if (found + 1 != part) {
      Throw(ErrorKind::kFormat, "{}: expected split.no {}, found {}", other.path(), part - 1,
            found);
    }
    tensors_.Absorb(std::move(other.tensors_));
  }
}

}  // namespace banyan
