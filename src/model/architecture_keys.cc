#include "model/architecture_keys.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace banyan {

int ArchitectureKeys::Narrow(std::int64_t value, const std::string& name) const {
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    Throw(ErrorKind::kFormat, "{}: key '{}': expected a 31-bit number, found {}", gguf_.path(),
          name, value);
  }
  return static_cast<int>(value);
}

std::optional<int> ArchitectureKeys::FindInt(const char* key) const {
  const std::string name = prefix_ + key;
  if (const auto values = FindList(key)) {
    if (values->empty() ||
        std::ranges::any_of(*values, [&](auto v) { return v != (*values)[0]; })) {
      Throw(ErrorKind::kUnsupported, "{}: key '{}' differs between layers, which is not supported",
            gguf_.path(), name);
    }
    return Narrow(values->front(), name);
  }
  const std::optional<std::uint64_t> value = gguf_.metadata().FindUint(name);
  if (!value) return std::nullopt;
  constexpr std::uint64_t kTooLarge = std::uint64_t{1} << 40;
  return Narrow(static_cast<std::int64_t>(std::min(*value, kTooLarge)), name);
}

int ArchitectureKeys::GetInt(const char* key) const {
  const std::optional<int> value = FindInt(key);
  if (!value) {
    Throw(ErrorKind::kFormat, "{}: key '{}{}' is missing", gguf_.path(), prefix_, key);
  }
  return *value;
}

std::optional<std::vector<int>> ArchitectureKeys::FindIntOfLayers(const char* key,
                                                                  int layers) const {
  const auto count = static_cast<size_t>(layers);
  const auto list = FindList(key);
  if (!list) {
    const std::optional<int> value = FindInt(key);
    if (!value) return std::nullopt;
    return std::vector<int>(count, *value);
  }
  if (list->size() != count) {
    Throw(ErrorKind::kFormat, "{}: key '{}{}': expected {} entries, found {}", gguf_.path(),
          prefix_, key, count, list->size());
  }
  std::vector<int> values;
  for (const std::int64_t value : *list) values.push_back(Narrow(value, prefix_ + key));
  return values;
}

std::optional<std::vector<std::int64_t>> ArchitectureKeys::FindList(const char* key) const {
  if (!gguf_.metadata().IsArray(prefix_ + key)) return std::nullopt;
  return gguf_.metadata().GetIntArray(prefix_ + key);
}

}  // namespace banyan
