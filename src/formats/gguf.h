// GGUF files (versions 2 and 3, little-endian): metadata and tensors. A model split over several
// files is opened by its first one.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "formats/gguf_metadata.h"
#include "formats/tensor_store.h"

namespace banyan {

class GgufFile {
 public:
  // Maps and checks the file. Throws kNotFound or kIo when it cannot be mapped, kFormat when its
  // bytes do not follow the format, kUnsupported for other versions and byte orders. A file
  // without tensors (a vocabulary) is fine. A tensor of an unknown element type is an error only
  // when it is fetched.
  explicit GgufFile(const std::filesystem::path& path);

  // The same for bytes in memory, which must outlive the object; `name` stands for the path in
  // messages. Never opens a file, so a split model is refused.
  GgufFile(std::span<const std::byte> bytes, std::string name);

  GgufFile(GgufFile&&) = default;
  GgufFile& operator=(GgufFile&&) = default;

  const GgufMetadata& metadata() const { return metadata_; }
  const TensorStore& tensors() const { return tensors_; }
  const std::string& path() const { return metadata_.path(); }

 private:
  GgufFile() = default;
  void Parse(std::span<const std::byte> bytes);
  void OpenOtherParts();

  GgufMetadata metadata_;
  TensorStore tensors_;
};

}  // namespace banyan
