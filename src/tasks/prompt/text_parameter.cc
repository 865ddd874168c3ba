#include "tasks/prompt/text_parameter.h"

#include <fmt/format.h>

#include "base/hash.h"

namespace banyan {

Json TextParameter(const std::string& text) {
  constexpr size_t kShownBytes = 2000;
  if (text.size() <= kShownBytes) return text;
  return fmt::format("{} bytes, sha256 {}", text.size(), ToHex(Sha256().Add(text).Finish()));
}

}  // namespace banyan
