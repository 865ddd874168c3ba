#include "store/segment_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/files.h"
#include "plan/attention_plan.h"

namespace banyan {
namespace {

constexpr char kSegmentMagic[] = "BANYANKV";
constexpr std::uint32_t kFormatVersion = 1, kVersionWithState = 2;
constexpr size_t kMostHeaderBytes = size_t{64} << 20;
constexpr std::uint32_t kMostTokens = 1u << 23, kMostExtent = 1u << 10;
constexpr std::int64_t kMostStateBytes = std::int64_t{1} << 36;
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

// Types as files number them. 3 was kQ8 before its heads were rotated (Hadamard).
constexpr std::uint32_t kPlainInt8 = 3, kHadamardInt8 = 4;
std::uint32_t TypeNumber(KvType type) {
  return type == KvType::kQ8 ? kHadamardInt8 : static_cast<std::uint32_t>(type);
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

HeaderWriter& PutBlock(HeaderWriter& writer, const StoredBlock& block) {
  return writer.Put(block.name)
      .Put(block.tokens)
      .Put(block.offset)
      .Put(block.bytes)
      .Put(block.checksum);
}

StoredBlock GetBlock(HeaderReader& reader) {
  StoredBlock block;
  block.name = reader.Get<Digest>();
  block.tokens = reader.Get<std::int32_t>();
  block.offset = reader.Get<std::int64_t>();
  block.bytes = reader.Get<std::int64_t>();
  block.checksum = reader.Get<ContentKey>();
  return block;
}

void CheckState(const SegmentHeader& header, const std::string& file) {
  const StoredBlock& last = header.blocks.back();
  if (header.state->name != StateName(last.name)) Refuse(file, "its state has another name");
  if (header.state->bytes < 1 || header.state->bytes > kMostStateBytes ||
      header.state->tokens != 0 || header.state->offset != last.offset + Aligned(last.bytes)) {
    Refuse(file, "its state is not where it belongs");
  }
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<Digest> BlockNames(const RunPlace& place, std::span<const TokenId> tokens) {
  return CutNames(place, tokens, kCutKeys);
}

std::int64_t SegmentHeader::file_bytes() const {
  if (state) return state->offset + state->bytes;
  return blocks.empty() ? 0 : blocks.back().offset + blocks.back().bytes;
}

Digest StateName(const Digest& last_cut) {
  constexpr std::string_view kWhat = "state";
  return Sha256().Add(std::as_bytes(std::span(last_cut))).Add(kWhat).Finish();
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
  if (header.state) header.state->offset = offset;
}

std::string WriteHeader(const SegmentHeader& header) {
  HeaderWriter writer;
  writer.text_.append(kSegmentMagic, 8);
  writer.Put(header.state ? kVersionWithState : kFormatVersion).Put(std::uint32_t{0}).Put(Digest{});
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
  for (const StoredBlock& block : header.blocks) PutBlock(writer, block);
  if (header.state) PutBlock(writer, *header.state);
  std::string& text = writer.text_;
  text.resize(static_cast<size_t>(Aligned(static_cast<std::int64_t>(text.size()))), '\0');
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(text.data() + kLengthAt, &length, sizeof(length));
  const Digest checksum = Sha256().Add(std::string_view(text).substr(kFixedHeaderBytes)).Finish();
  std::memcpy(text.data() + kChecksumAt, checksum.data(), checksum.size());
  return std::move(text);
}

namespace {

std::uint32_t VersionOf(std::span<const std::byte> fixed) {
  std::uint32_t version = 0;
  std::memcpy(&version, fixed.data() + 8, sizeof(version));
  return version;
}

}  // namespace

size_t HeaderLength(std::span<const std::byte> fixed, const std::string& file) {
  if (fixed.size() < kFixedHeaderBytes || std::memcmp(fixed.data(), kSegmentMagic, 8) != 0) {
    Throw(ErrorKind::kFormat, "{}: not a file of a KV store", file);
  }
  std::uint32_t length = 0;
  const std::uint32_t version = VersionOf(fixed);
  std::memcpy(&length, fixed.data() + kLengthAt, sizeof(length));
  if (version != kFormatVersion && version != kVersionWithState) {
    Throw(ErrorKind::kFormat, "{}: version {}: expected {} or {}", file, version, kFormatVersion,
          kVersionWithState);
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
  return ReadHeaderContents(contents, length, file, VersionOf(bytes) == kVersionWithState);
}

SegmentHeader ReadHeaderContents(std::span<const std::byte> bytes, size_t header_length,
                                 const std::string& file, bool with_state) {
  HeaderReader reader(bytes, file);
  SegmentHeader header;
  header.root = reader.Get<Digest>();
  header.place.above = reader.Get<Digest>();
  header.shape.layers = static_cast<int>(reader.Number("layers", 1, kMostExtent));
  header.shape.kv_heads = static_cast<int>(reader.Number("heads", 1, kMostExtent));
  header.shape.head_dim = static_cast<int>(reader.Number("values of a head", 1, kMostExtent));
  const std::uint32_t type = reader.Number("type", 0, kHadamardInt8);
  if (type == kPlainInt8) Refuse(file, "its 8-bit codes are of a version before this one's");
  header.type = type == kHadamardInt8 ? KvType::kQ8 : static_cast<KvType>(type);
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
  for (std::uint32_t i = 0; i < blocks; ++i) header.blocks.push_back(GetBlock(reader));
  if (with_state) header.state = GetBlock(reader);
  CheckBlocks(header, header_length, file);
  if (with_state) CheckState(header, file);
  return header;
}

void MakePrivateFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return;
  const int reason = errno;
  struct stat status {};
  if (reason == EEXIST && ::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
  Throw(ErrorKind::kIo, "{}: cannot make the folder: {}", folder,
        reason == EEXIST ? "a link or a file stands there" : std::strerror(reason));
}

void WriteSegmentFile(const std::string& path, SegmentHeader& header,
                      std::span<const std::byte> bytes, std::span<const std::byte> state) {
  header.state.reset();
  if (!state.empty()) {
    header.state = StoredBlock{.bytes = static_cast<std::int64_t>(state.size())};
  }
  PlaceBlocks(header);
  const std::vector<Digest> names = BlockNames(header.place, header.tokens);
  std::span<const std::byte> rest = bytes;
  for (size_t i = 0; i < header.blocks.size(); ++i) {
    StoredBlock& block = header.blocks[i];
    block.name = names[i];
    block.checksum = BlockChecksum(names[i], rest.first(static_cast<size_t>(block.bytes)));
    rest = rest.subspan(static_cast<size_t>(block.bytes));
  }
  BANYAN_CHECK(rest.empty());
  if (header.state) {
    header.state->name = StateName(names.back());
    header.state->checksum = BlockChecksum(header.state->name, state);
  }
  // Documents can be reconstructed from the contents: only the owner may read them.
  AtomicFile file(path, path + ".new", 0600);
  const std::string head = WriteHeader(header);
  file.Write(head);
  auto at = static_cast<std::int64_t>(head.size());
  for (const StoredBlock& block : header.blocks) {
    file.Write(std::string(static_cast<size_t>(block.offset - at), '\0'));
    file.Write(AsText(bytes.first(static_cast<size_t>(block.bytes))));
    bytes = bytes.subspan(static_cast<size_t>(block.bytes));
    at = block.offset + block.bytes;
  }
  if (header.state) {
    file.Write(std::string(static_cast<size_t>(header.state->offset - at), '\0'));
    file.Write(AsText(state));
  }
  file.Commit();
}

std::int64_t ReadAt(int fd, std::int64_t offset, std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(fd, out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + static_cast<std::int64_t>(done)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

std::optional<SegmentFile> SegmentFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not block.
  const int fd = OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  SegmentFile file(fd, path);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return file;
}

SegmentFile::~SegmentFile() {
  if (fd_ >= 0) ::close(fd_);
}
SegmentFile::SegmentFile(SegmentFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
SegmentFile& SegmentFile::operator=(SegmentFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  return *this;
}

SegmentHeader SegmentFile::Header() const {
  std::vector<std::byte> bytes(kFixedHeaderBytes);
  const auto read = [&] {
    const std::int64_t count = ReadAt(fd_, 0, bytes);
    if (count < 0) Throw(ErrorKind::kIo, "{}: cannot read: {}", path_, std::strerror(errno));
    bytes.resize(static_cast<size_t>(count));
  };
  read();
  bytes.resize(HeaderLength(bytes, path_));
  read();
  return ReadHeader(bytes, path_);
}

bool SegmentFile::Read(const StoredBlock& block, std::span<std::byte> out) const {
  BANYAN_CHECK(static_cast<std::int64_t>(out.size()) == block.bytes);
  if (ReadAt(fd_, block.offset, out) != block.bytes) return false;
  return BlockChecksum(block.name, out) == block.checksum;
}

void SegmentFile::Expect(std::int64_t offset, std::int64_t bytes) const {
  ::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

}  // namespace banyan
