#include "store/segment_format.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "plan/attention_plan.h"

namespace banyan {
namespace {

constexpr char kSegmentMagic[] = "BANYANKV";
constexpr std::uint32_t kFormatVersion = 1;
constexpr size_t kMostHeaderBytes = size_t{64} << 20;
constexpr std::uint32_t kMostTokens = 1u << 23, kMostExtent = 1u << 10;
constexpr size_t kLengthAt = 12, kChecksumAt = 16;

std::int64_t Aligned(std::int64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

class HeaderWriter {
 public:
  template <typename T>
  HeaderWriter& Put(const T& value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  HeaderWriter& PutText(const std::string& text) {
    Put(static_cast<std::uint32_t>(text.size()));
    text_ += text;
    return *this;
  }
  std::string text_;
};

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& file)
      : bytes_(bytes), file_(file) {}

  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  // A number from `least` to `most`.
  std::uint32_t Number(const char* what, std::uint32_t least, std::uint32_t most) {
    const auto number = Get<std::uint32_t>();
    if (number < least || number > most) {
      Throw(ErrorKind::kFormat, "{}: {}: expected {} to {}, found {}", file_, what, least, most,
            number);
    }
    return number;
  }
  std::string Text() {
    const auto size = Get<std::uint32_t>();
    const std::span<const std::byte> text = Take(size);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
  std::span<const std::byte> Take(size_t count) {
    if (count > bytes_.size()) {
      Throw(ErrorKind::kFormat, "{}: the header ends too early: {} bytes are left of {}", file_,
            bytes_.size(), count);
    }
    const std::span<const std::byte> taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& file_;
};

// Types as files number them. 3 was kQ8 before its heads were spread.
constexpr std::uint32_t kPlainCodes = 3, kSpreadCodes = 4;
std::uint32_t TypeNumber(KvType type) {
  return type == KvType::kQ8 ? kSpreadCodes : static_cast<std::uint32_t>(type);
}

[[noreturn]] void Refuse(const std::string& file, const char* what) {
  Throw(ErrorKind::kFormat, "{}: {}", file, what);
}

void CheckBlocks(const SegmentHeader& found, size_t header_length, const std::string& file) {
  SegmentHeader expected = found;
  expected.blocks.clear();
  PlaceBlocks(expected);
  const std::vector<Digest> names = BlockNames(found.place, found.tokens);
  std::int64_t offset = static_cast<std::int64_t>(header_length);
  if (found.blocks.size() != names.size()) Refuse(file, "its blocks are not those of its tokens");
  for (size_t i = 0; i < names.size(); ++i) {
    const StoredBlock& block = found.blocks[i];
    if (block.name != names[i]) Refuse(file, "a block has another name than its tokens");
    if (block.tokens != expected.blocks[i].tokens || block.bytes != expected.blocks[i].bytes ||
        block.offset != offset) {
      Refuse(file, "a block is not where it belongs");
    }
    offset += Aligned(block.bytes);
  }
}

}  // namespace

std::vector<Digest> BlockNames(const RunPlace& place, std::span<const TokenId> tokens) {
  return CutNames(place, tokens, kCutKeys);
}

std::int64_t SegmentHeader::file_bytes() const {
  return blocks.empty() ? 0 : blocks.back().offset + blocks.back().bytes;
}

ContentKey BlockChecksum(const Digest& name, std::span<const std::byte> bytes) {
  return ContentHash().Add(bytes).Add(std::as_bytes(std::span(name))).Value();
}

void PlaceBlocks(SegmentHeader& header) {
  const PageForm form = FormOf(header.shape, header.type);
  const auto tokens = static_cast<std::int32_t>(header.tokens.size());
  header.blocks.clear();
  for (std::int32_t begin = 0; begin < tokens; begin += kCutKeys) {
    StoredBlock& block = header.blocks.emplace_back();
    block.tokens = std::min(kCutKeys, tokens - begin);
    block.bytes = form.page_bytes() * ((block.tokens + kPageTokens - 1) / kPageTokens);
  }
  std::int64_t offset = static_cast<std::int64_t>(WriteHeader(header).size());
  for (StoredBlock& block : header.blocks) {
    block.offset = offset;
    offset += Aligned(block.bytes);
  }
}

std::string WriteHeader(const SegmentHeader& header) {
  HeaderWriter writer;
  writer.text_.append(kSegmentMagic, 8);
  writer.Put(kFormatVersion).Put(std::uint32_t{0}).Put(Digest{});
  writer.Put(header.root).Put(header.place.above);
  writer.Put(header.shape.layers).Put(header.shape.kv_heads).Put(header.shape.head_dim);
  writer.Put(TypeNumber(header.type)).Put(std::uint32_t{header.exact});
  writer.Put(std::uint32_t{kPageTokens}).Put(std::uint32_t{kCutKeys});
  writer.Put(header.place.first_position).Put(header.place.segment_offset);
  writer.Put(header.key_loss).Put(header.value_loss);
  writer.PutText(header.label).PutText(header.model);
  writer.Put(static_cast<std::uint32_t>(header.tokens.size()));
  for (const TokenId token : header.tokens) writer.Put(token);
  writer.Put(static_cast<std::uint32_t>(header.blocks.size()));
  for (const StoredBlock& block : header.blocks) {
    writer.Put(block.name).Put(block.tokens).Put(block.offset).Put(block.bytes);
    writer.Put(block.checksum);
  }
  std::string& text = writer.text_;
  text.resize(static_cast<size_t>(Aligned(static_cast<std::int64_t>(text.size()))), '\0');
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(text.data() + kLengthAt, &length, sizeof(length));
  const Digest checksum = Sha256().Add(std::string_view(text).substr(kFixedHeaderBytes)).Finish();
  std::memcpy(text.data() + kChecksumAt, checksum.data(), checksum.size());
  return std::move(text);
}

size_t HeaderLength(std::span<const std::byte> fixed, const std::string& file) {
  if (fixed.size() < kFixedHeaderBytes || std::memcmp(fixed.data(), kSegmentMagic, 8) != 0) {
    Throw(ErrorKind::kFormat, "{}: not a file of a KV store", file);
  }
  std::uint32_t version = 0, length = 0;
  std::memcpy(&version, fixed.data() + 8, sizeof(version));
  std::memcpy(&length, fixed.data() + kLengthAt, sizeof(length));
  if (version != kFormatVersion) {
    Throw(ErrorKind::kFormat, "{}: version {}: expected {}", file, version, kFormatVersion);
  }
  if (length < kBlockAlignment || length > kMostHeaderBytes || length % kBlockAlignment != 0) {
    Throw(ErrorKind::kFormat, "{}: a header of {} bytes", file, length);
  }
  return length;
}

SegmentHeader ReadHeader(std::span<const std::byte> bytes, const std::string& file) {
  const size_t length = HeaderLength(bytes, file);
  if (bytes.size() < length) Refuse(file, "the file ends in its header");
  const std::span<const std::byte> contents = bytes.first(length).subspan(kFixedHeaderBytes);
  const Digest checksum = Sha256().Add(contents).Finish();
  if (std::memcmp(checksum.data(), bytes.data() + kChecksumAt, checksum.size()) != 0) {
    Refuse(file, "the header's checksum is wrong");
  }
  return ReadHeaderContents(contents, length, file);
}

SegmentHeader ReadHeaderContents(std::span<const std::byte> bytes, size_t header_length,
                                 const std::string& file) {
  HeaderReader reader(bytes, file);
  SegmentHeader header;
  header.root = reader.Get<Digest>();
  header.place.above = reader.Get<Digest>();
  header.shape.layers = static_cast<int>(reader.Number("layers", 1, kMostExtent));
  header.shape.kv_heads = static_cast<int>(reader.Number("heads", 1, kMostExtent));
  header.shape.head_dim = static_cast<int>(reader.Number("values of a head", 1, kMostExtent));
  const std::uint32_t type = reader.Number("type", 0, kSpreadCodes);
  if (type == kPlainCodes) Refuse(file, "its 8-bit codes are of a version before this one's");
  header.type = type == kSpreadCodes ? KvType::kQ8 : static_cast<KvType>(type);
  header.exact = reader.Number("exact", 0, 1) == 1;
  reader.Number("tokens of a page", kPageTokens, kPageTokens);
  reader.Number("tokens of a cut", kCutKeys, kCutKeys);
  header.place.first_position = static_cast<std::int32_t>(reader.Number("position", 0, 1u << 30));
  header.place.segment_offset = static_cast<std::int32_t>(reader.Number("offset", 0, 1u << 30));
  if (header.place.segment_offset % kCutKeys != 0) Refuse(file, "it does not begin with a cut");
  header.key_loss = reader.Get<float>();
  header.value_loss = reader.Get<float>();
  header.label = reader.Text();
  header.model = reader.Text();
  const std::uint32_t tokens = reader.Number("tokens", 1, kMostTokens);
  const std::span<const std::byte> ids = reader.Take(tokens * sizeof(TokenId));
  header.tokens.resize(tokens);
  std::memcpy(header.tokens.data(), ids.data(), ids.size());
  const std::uint32_t blocks = reader.Number("blocks", 1, kMostTokens / kCutKeys + 1);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    StoredBlock block;
    block.name = reader.Get<Digest>();
    block.tokens = reader.Get<std::int32_t>();
    block.offset = reader.Get<std::int64_t>();
    block.bytes = reader.Get<std::int64_t>();
    block.checksum = reader.Get<ContentKey>();
    header.blocks.push_back(block);
  }
  CheckBlocks(header, header_length, file);
  return header;
}

}  // namespace banyan
