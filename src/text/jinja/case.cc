#include "text/jinja/case.h"

#include <utf8proc.h>

#include <utility>

namespace banyan::jinja {
namespace {

enum class Case { kUpper, kLower, kTitle };

void AppendCased(std::string& out, int32_t c, Case to) {
  if (c == 0xDF && to != Case::kLower) {  // ß has no single upper-case character
    out += to == Case::kUpper ? "SS" : "Ss";
  } else {
    AppendUtf8(out, to == Case::kLower   ? utf8proc_tolower(c)
                    : to == Case::kUpper ? utf8proc_toupper(c)
                                         : utf8proc_totitle(c));
  }
}

// `choose()` gives each character's case in turn.
template <typename Choose>
Text MapCase(Runtime& runtime, const Text& text, Choose choose) {
  runtime.Bytes(text.size());
  const std::string& bytes = text.bytes();
  std::string out;
  out.reserve(bytes.size());
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t length = CharLength(bytes, pos);
    const int32_t c = CharAt(bytes, pos);
    if (c == 0xFFFD) {
      out.append(bytes, pos, length);  // also invalid bytes: kept as they are
    } else {
      AppendCased(out, c, choose());
    }
    pos += length;
  }
  return Text(std::move(out), text.HasUser());
}

}  // namespace

Text Upper(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [] { return Case::kUpper; });
}

Text Lower(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [] { return Case::kLower; });
}

Text Capitalize(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [first = true]() mutable {
    return std::exchange(first, false) ? Case::kTitle : Case::kLower;
  });
}

}  // namespace banyan::jinja
