// A file of the KV store: a header, then the keys and values of a run of tokens, cut by cut, and
// where layers keep states (kernels/states.h) perhaps the state after the last token.
// docs/kv-store.md has the layout; a reader trusts no number in it. Files are written whole under
// another name, synced and renamed; they are read block by block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/types.h"
#include "base/hash.h"
#include "kernels/page_form.h"
#include "tree/forest.h"

namespace banyan {

// The keys and values of one cut (at most kCutKeys tokens): pages in the form of page_form.h.
struct StoredBlock {
  Digest name{};  // of the cut: model, and path of tokens and positions up to its end
  std::int32_t tokens = 0;
  std::int64_t offset = 0, bytes = 0;  // in the file
  ContentKey checksum{};               // of the name and the bytes
};

struct SegmentHeader {
  Digest root{};      // what the model contributes to every name
  RunPlace place;     // of the first token
  std::string model;  // what `root` is a hash of, as JSON
  std::string label;  // where it comes from
  KvShape shape;
  KvType type = KvType::kF32;
  bool exact = true;                         // the engine's own bits
  float key_loss = 0.0f, value_loss = 0.0f;  // of an approximate one, see RoundingLoss
  std::vector<TokenId> tokens;
  std::vector<StoredBlock> blocks;   // one after the other, the last one perhaps shorter
  std::optional<StoredBlock> state;  // after them; without tokens

  std::int64_t file_bytes() const;
};

inline constexpr std::int64_t kBlockAlignment = 4096;
inline constexpr size_t kFixedHeaderBytes = 48;  // magic, version, length, checksum

// Of the blocks of a run that begins with a cut.
std::vector<Digest> BlockNames(const RunPlace& place, std::span<const TokenId> tokens);

// Of the state after a path, whose last cut has this name.
Digest StateName(const Digest& last_cut);

// Lays the blocks and, if there is one, the state of state->bytes out (tokens, offsets, bytes) for
// the header's tokens, shape and type.
void PlaceBlocks(SegmentHeader& header);

ContentKey BlockChecksum(const Digest& name, std::span<const std::byte> bytes);

std::string WriteHeader(const SegmentHeader& header);
// How long the header of a file is that begins with these bytes. Throws kFormat naming the file.
size_t HeaderLength(std::span<const std::byte> fixed, const std::string& file);
// Throws kFormat naming the file when anything is not as it must be: names that are not those of
// the tokens, blocks that are not where they belong, a checksum.
SegmentHeader ReadHeader(std::span<const std::byte> bytes, const std::string& file);
// ReadHeader for bytes whose magic and checksum are right; `bytes`: what comes after these two.
// `with_state`: as the version says.
SegmentHeader ReadHeaderContents(std::span<const std::byte> bytes, size_t header_length,
                                 const std::string& file, bool with_state = false);

// Writes the header and the blocks, whose bytes follow one another in `bytes`, and the state if
// there is one; places, names and checksums of the header's blocks are set. Nothing stands under
// `path` before all of it is on the disk. Throws kIo, and leaves nothing behind.
void WriteSegmentFile(const std::string& path, SegmentHeader& header,
                      std::span<const std::byte> bytes, std::span<const std::byte> state = {});

class SegmentFile {
 public:
  // Nothing when there is no such file, it cannot be opened, or it is a link or no plain file.
  static std::optional<SegmentFile> Open(const std::string& path);
  ~SegmentFile();
  SegmentFile(SegmentFile&& other) noexcept;
  SegmentFile& operator=(SegmentFile&& other) noexcept;
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

  // Throws kFormat, kIo.
  SegmentHeader Header() const;
  // False when the bytes cannot be read or are not those that the block's checksum is of.
  // REQUIRES: out has the block's size.
  bool Read(const StoredBlock& block, std::span<std::byte> out) const;
  // A hint to the system: these bytes will be read soon.
  void Expect(std::int64_t offset, std::int64_t bytes) const;

 private:
  SegmentFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

// Reads up to out.size() bytes at the offset; how many there were. -1: an error, see errno.
std::int64_t ReadAt(int fd, std::int64_t offset, std::span<std::byte> out);

// Makes the folder, readable by its owner alone, if it is not there. Throws kIo, also when a link
// or a file stands there.
void MakePrivateFolder(const std::string& folder);

}  // namespace banyan
