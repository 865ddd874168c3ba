// The contents of an index of documents (the checksum before them would stop every mutation).
#include <cstddef>
#include <cstdint>

#include "banyan/error.h"
#include "retrieve/bm25.h"
#include "retrieve/index_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const bool whole : {false, true}) {
    try {
      banyan::IndexContents index =
          whole ? banyan::ReadIndexBytes(bytes, "fuzz") : banyan::ReadIndexContents(bytes, "fuzz");
      const auto passages = static_cast<std::int64_t>(index.passages.size());
      const banyan::Bm25 bm25 = banyan::Bm25::FromWords(passages, std::move(index.words));
      const std::vector<std::string> query = {"a", "b"};
      (void)banyan::BestDocuments(bm25.Scores(query), 3);
    } catch (const banyan::Error&) {
    }
  }
  return 0;
}
