#include "program/plural.h"

#include <fmt/format.h>

#include <cstddef>

namespace banyan {

std::string Plural(std::int64_t count, std::string_view noun) {
  std::string text = std::to_string(count);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<size_t>(at), " ");
  }
  text += ' ';
  text += noun;
  if (count != 1) text += 's';
  return text;
}

std::string SizeText(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 1 << 10) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", value / (1 << 10));
  if (bytes < 1 << 30) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.2f} GiB", value / (1 << 30));
}

}  // namespace banyan
