// banyan::KvStore for its callers: listing, checking, pinning and exporting segments.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include "banyan/kv_store.h"
#include "base/error.h"
#include "base/json.h"
#include "program/fresh_file.h"
#include "store/segment_file.h"
#include "store/store_parts.h"
#include "tensor/narrow_floats.h"

namespace banyan {
namespace {

constexpr const char* kStoredTypes[] = {"f32", "f16", "bf16", "q8"};

StoredSegment DescribeSegment(const IndexedSegment& found) {
  StoredSegment segment;
  segment.id = IdOfFile(found.file);
  segment.label = found.label;
  segment.model = found.model;
  segment.type = kStoredTypes[static_cast<int>(found.type)];
  segment.exact = found.exact;
  segment.key_loss = found.key_loss;
  segment.value_loss = found.value_loss;
  segment.tokens = found.tokens;
  segment.first_position = found.first_position;
  segment.bytes = found.bytes;
  segment.created = found.created / 1000;
  segment.used = found.used / 1000;
  segment.pinned = found.pinned;
  return segment;
}

SegmentHeader ReadHeaderOf(const KvStore::Parts& parts, const std::string& file) {
  const std::optional<SegmentFile> segment = SegmentFile::Open(parts.PathOf(file));
  if (!segment) Throw(ErrorKind::kIo, "{}: cannot open", parts.PathOf(file));
  return segment->Header();
}

void RequireWriting(const KvStore::Parts& parts) { BANYAN_CHECK(parts.writing != nullptr); }

// Every block of a file, against its header. Throws kFormat, kIo.
void CheckFile(const std::string& path, const IndexedSegment& listed) {
  const std::optional<SegmentFile> file = SegmentFile::Open(path);
  if (!file) Throw(ErrorKind::kIo, "{}: cannot open", path);
  const SegmentHeader header = file->Header();
  if (header.root != listed.root || header.type != listed.type ||
      FileOfSegment(header) != listed.file) {
    Throw(ErrorKind::kFormat, "{}: the index says another thing of it than its header", path);
  }
  std::vector<std::byte> bytes;
  std::vector<StoredBlock> blocks = header.blocks;
  if (header.state) blocks.push_back(*header.state);
  for (const StoredBlock& block : blocks) {
    bytes.resize(static_cast<size_t>(block.bytes));
    if (!file->Read(block, bytes)) {
      Throw(ErrorKind::kFormat, "{}: the block at {} is damaged or missing", path, block.offset);
    }
  }
}

// 8-bit codes are exported as the numbers they stand for.
KvType ExportedType(KvType type) { return type == KvType::kQ8 ? KvType::kF32 : type; }
const char* TensorTypeName(KvType type) {
  if (type == KvType::kF32) return "F32";
  return type == KvType::kF16 ? "F16" : "BF16";
}
size_t ExportedBytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

void PutFloats(KvType type, std::span<const float> values, char* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (type == KvType::kF32) {
      std::memcpy(out + 4 * i, &values[i], 4);
      continue;
    }
    const std::uint16_t half =
        type == KvType::kF16 ? FloatToF16(values[i]) : FloatToBF16(values[i]);
    std::memcpy(out + 2 * i, &half, 2);
  }
}

}  // namespace

KvStore::KvStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
KvStore::~KvStore() = default;

std::shared_ptr<KvStore> KvStore::Open(const KvStoreOptions& options) {
  return std::shared_ptr<KvStore>(new KvStore(std::make_unique<Parts>(options)));
}

bool KvStore::writable() const { return parts_->writing != nullptr; }
int KvStore::bits() const { return parts_->options.bits; }
void KvStore::Finish() { parts_->Finish(); }

KvStoreTotals KvStore::totals() const {
  KvStoreTotals totals;
  totals.limit = parts_->reading->limit();
  for (const IndexedSegment& segment : parts_->reading->List()) {
    ++totals.segments;
    totals.tokens += segment.tokens;
    totals.bytes += segment.bytes;
  }
  return totals;
}

std::vector<StoredSegment> KvStore::List() const {
  std::vector<StoredSegment> segments;
  for (const IndexedSegment& found : parts_->reading->List())
    segments.push_back(DescribeSegment(found));
  return segments;
}

std::string KvStore::Describe(const std::string& id) const {
  const IndexedSegment found = parts_->Only(id);
  const SegmentHeader header = ReadHeaderOf(*parts_, found.file);
  const StoredSegment segment = DescribeSegment(found);
  nlohmann::ordered_json json = {{"id", segment.id},
                                 {"label", segment.label},
                                 {"file", found.file},
                                 {"name", ToHex(header.blocks.back().name)},
                                 {"above", ToHex(header.place.above)},
                                 {"type", segment.type},
                                 {"exact", segment.exact},
                                 {"layers", header.shape.layers},
                                 {"kv_heads", header.shape.kv_heads},
                                 {"head_dim", header.shape.head_dim},
                                 {"first_position", header.place.first_position},
                                 {"segment_offset", header.place.segment_offset},
                                 {"tokens", header.tokens.size()},
                                 {"blocks", header.blocks.size()},
                                 {"state_bytes", header.state ? header.state->bytes : 0},
                                 {"bytes", segment.bytes},
                                 {"created", segment.created},
                                 {"used", segment.used},
                                 {"pinned", segment.pinned}};
  if (!segment.exact) {
    json["key_loss"] = segment.key_loss;
    json["value_loss"] = segment.value_loss;
  }
  json["token_ids"] = header.tokens;
  json["model"] = header.model.empty()
                      ? nlohmann::ordered_json()
                      : nlohmann::ordered_json::parse(header.model, nullptr, false);
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

KvStoreCheck KvStore::Verify(bool remove,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (remove) RequireWriting(*parts_);
  KvStoreCheck check;
  const std::vector<IndexedSegment> segments = parts_->reading->List();
  std::int64_t all = 0, done = 0;
  for (const IndexedSegment& segment : segments) all += segment.bytes;
  for (const IndexedSegment& segment : segments) {
    try {
      CheckFile(parts_->PathOf(segment.file), segment);
      ++check.segments;
      check.bytes += segment.bytes;
    } catch (const Error& error) {
      // Another process may have removed it meanwhile, its entry first.
      const std::vector<IndexedSegment> now = parts_->reading->List();
      if (std::ranges::find(now, segment.number, &IndexedSegment::number) == now.end()) continue;
      check.damaged.emplace_back(error.what());
      if (remove) {
        parts_->Discard(segment);
        ++check.removed;
        check.freed_bytes += segment.bytes;
      }
    }
    done += segment.bytes;
    if (progress) progress(done, all);
  }
  return check;
}

void KvStore::Remove(const std::string& id) {
  RequireWriting(*parts_);
  parts_->Discard(parts_->Only(id));
}

void KvStore::Pin(const std::string& id, bool pinned) {
  RequireWriting(*parts_);
  parts_->writing->SetPinned(parts_->Only(id).number, pinned);
}

KvStoreCheck KvStore::Collect() {
  RequireWriting(*parts_);
  KvStoreCheck check;
  parts_->PutInOrder(check, /*remove_unreadable=*/true);
  const std::int64_t limit = parts_->writing->limit();
  std::int64_t total = parts_->writing->TotalBytes();
  for (const IndexedSegment& segment : parts_->writing->Evictable(parts_->opened)) {
    if (total <= limit) break;
    parts_->Discard(segment);
    total -= segment.bytes;
    ++check.removed;
    check.freed_bytes += segment.bytes;
  }
  const KvStoreTotals left = totals();
  check.segments = left.segments;
  check.bytes = left.bytes;
  return check;
}

// As safetensors: the keys and values without our pages, for other programs.
void KvStore::Export(const std::string& id, const std::string& path) const {
  const IndexedSegment found = parts_->Only(id);
  const std::optional<SegmentFile> file = SegmentFile::Open(parts_->PathOf(found.file));
  if (!file) Throw(ErrorKind::kIo, "{}: cannot open", parts_->PathOf(found.file));
  const SegmentHeader header = file->Header();
  const PageForm form = FormOf(header.shape, header.type);
  const KvType type = ExportedType(header.type);
  const auto dim = static_cast<size_t>(header.shape.head_dim);
  const size_t tokens = header.tokens.size(), heads = static_cast<size_t>(header.shape.kv_heads);
  const size_t tensor_bytes = tokens * heads * dim * ExportedBytes(type);

  nlohmann::ordered_json head;
  std::string ids;
  for (const TokenId token : header.tokens)
    ids += fmt::format("{}{}", ids.empty() ? "" : " ", token);
  head["__metadata__"] = {{"label", header.label},
                          {"token_ids", ids},
                          {"first_position", fmt::format("{}", header.place.first_position)},
                          {"name", ToHex(header.blocks.back().name)},
                          {"model", header.model}};
  size_t offset = 0;
  for (int layer = 0; layer < header.shape.layers; ++layer) {
    for (const char* what : {"keys", "values"}) {
      head[fmt::format("layers.{}.{}", layer, what)] = {
          {"dtype", TensorTypeName(type)},
          {"shape", {tokens, heads, dim}},
          {"data_offsets", {offset, offset + tensor_bytes}}};
      offset += tensor_bytes;
    }
  }
  std::string text = head.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());

  std::string data(offset, '\0');
  std::vector<std::byte> bytes;
  std::vector<float> keys(dim), values(dim);
  size_t first = 0;
  for (const StoredBlock& block : header.blocks) {
    bytes.resize(static_cast<size_t>(block.bytes));
    if (!file->Read(block, bytes)) {
      Throw(ErrorKind::kFormat, "{}: the block at {} is damaged or missing", found.file,
            block.offset);
    }
    const std::int64_t pages = (block.tokens + kPageTokens - 1) / kPageTokens;
    for (int layer = 0; layer < header.shape.layers; ++layer) {
      for (int t = 0; t < block.tokens; ++t) {
        for (size_t h = 0; h < heads; ++h) {
          const std::byte* at = bytes.data() +
                                (layer * pages + t / kPageTokens) * form.layer_bytes() +
                                static_cast<std::int64_t>(h) * form.head_bytes;
          ReadToken(form, at, t % kPageTokens, keys, values);
          const size_t row = ((first + static_cast<size_t>(t)) * heads + h) * dim;
          char* out = data.data() + static_cast<size_t>(layer) * 2 * tensor_bytes +
                      row * ExportedBytes(type);
          PutFloats(type, keys, out);
          PutFloats(type, values, out + tensor_bytes);
        }
      }
    }
    first += static_cast<size_t>(block.tokens);
  }
  FreshFile out(path, "-o", /*overwrite=*/true);
  out.stream().write(reinterpret_cast<const char*>(&length), sizeof(length));
  out.stream() << text << data;
  out.Finish();
}

}  // namespace banyan
