// The header of a segment of the KV store; its contents also without the checksum before them,
// which would stop every mutation.
#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/error.h"
#include "store/segment_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const bool whole : {false, true}) {
    try {
      const banyan::SegmentHeader header =
          whole ? banyan::ReadHeader(bytes, "fuzz")
                : banyan::ReadHeaderContents(
                      bytes.subspan(size < banyan::kFixedHeaderBytes ? size
                                                                     : banyan::kFixedHeaderBytes),
                      size, "fuzz", /*with_state=*/size % 2 == 1);
      (void)banyan::WriteHeader(header);
    } catch (const banyan::Error&) {
    }
  }
  return 0;
}
