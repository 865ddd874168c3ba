#include "base/cache_directory.h"

#include <cstdlib>

namespace banyan {

std::filesystem::path CacheDirectory() {
  const auto value = [](const char* name) -> std::filesystem::path {
    const char* found = std::getenv(name);
    return found == nullptr ? "" : found;
  };
  if (const auto own = value("BANYAN_CACHE"); !own.empty()) return own;
  if (const auto xdg = value("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "banyan";
  if (const auto home = value("HOME"); !home.empty()) return home / ".cache" / "banyan";
  return {};
}

}  // namespace banyan
