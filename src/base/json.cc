#include "base/json.h"

#include <algorithm>

#include "base/error.h"

namespace banyan {

Json ParseJson(std::string_view text, const std::string& what) {
  constexpr int kMaxDepth = 256;
  const auto limit_depth = [&](int depth, Json::parse_event_t event, Json&) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth) {
      Throw(ErrorKind::kFormat, "{}: JSON nests deeper than {}", what, kMaxDepth);
    }
    return true;
  };
  if (const size_t at = text.find('\0'); at != std::string_view::npos) {
    // The library takes it for the end, whatever follows.
    Throw(ErrorKind::kFormat, "{}: not valid JSON: zero at byte {}", what, at + 1);
  }
  try {
    return Json::parse(text.begin(), text.end(), limit_depth);
  } catch (const Json::exception& e) {
    std::string reason = e.what();  // "[json.exception.parse_error.101] parse error at …: …"
    if (const size_t end = reason.find("] "); end != std::string::npos) reason.erase(0, end + 2);
    Throw(ErrorKind::kFormat, "{}: not valid JSON: {}", what, reason);
  }
}

}  // namespace banyan
