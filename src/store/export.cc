// A segment as safetensors: what it holds without our pages, for other programs.
#include <cstring>

#include "base/error.h"
#include "base/json.h"
#include "program/fresh_file.h"
#include "store/segment_file.h"
#include "store/store_parts.h"
#include "tensor/float16.h"

namespace banyan {
namespace {

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
