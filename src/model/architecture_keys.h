// The metadata of a GGUF file that belongs to its model: keys that begin with the architecture.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "formats/gguf.h"

namespace banyan {

// Find…: nothing when the key is absent. Get…: throws kFormat then. All throw kFormat, naming file
// and key, for a value of another type or out of range.
class ArchitectureKeys {
 public:
  // `gguf` outlives the object.
  ArchitectureKeys(const GgufFile& gguf, std::string architecture)
      : gguf_(gguf), prefix_(std::move(architecture) + ".") {}

  const GgufFile& gguf() const { return gguf_; }

  // One number, or one for each layer that is the same in all: throws kUnsupported if it is not.
  std::optional<int> FindInt(const char* key) const;
  int GetInt(const char* key) const;
  // [layers] the number of each layer, where the file gives one number or one for each. Throws
  // kFormat for a list of another length.
  std::optional<std::vector<int>> FindIntOfLayers(const char* key, int layers) const;
  // Nothing also when it is not an array.
  std::optional<std::vector<std::int64_t>> FindList(const char* key) const;

  std::optional<bool> FindBool(const char* key) const {
    return gguf_.metadata().FindBool(prefix_ + key);
  }
  std::optional<double> FindFloat(const char* key) const {
    return gguf_.metadata().FindFloat(prefix_ + key);
  }
  double GetFloat(const char* key) const { return gguf_.metadata().GetFloat(prefix_ + key); }
  std::optional<std::string> FindString(const char* key) const {
    return gguf_.metadata().FindString(prefix_ + key);
  }

 private:
  int Narrow(std::int64_t value, const std::string& name) const;

  const GgufFile& gguf_;
  std::string prefix_;
};

}  // namespace banyan
