#include "text/jinja/case.h"

#include <utf8proc.h>

#include <string_view>
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

// `choose(code point, previous code point or 0)` gives each character's case.
template <typename Choose>
Text MapCase(Runtime& runtime, const Text& text, Choose choose) {
  runtime.Bytes(text.size());
  const std::string& bytes = text.bytes();
  std::string out;
  out.reserve(bytes.size());
  int32_t previous = 0;
  for (size_t pos = 0; pos < bytes.size();) {
    const size_t length = CharLength(bytes, pos);
    const int32_t c = CharAt(bytes, pos);
    if (c == 0xFFFD) {
      out.append(bytes, pos, length);  // also invalid bytes: kept as they are
    } else {
      AppendCased(out, c, choose(c, previous));
    }
    previous = c;
    pos += length;
  }
  return Text(std::move(out), text.HasUser());
}

bool IsCased(int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
      return true;
    default:
      return false;
  }
}

template <typename Accept>
bool AllChars(Runtime& runtime, const Text& text, Accept accept) {
  runtime.Bytes(text.size());
  for (size_t pos = 0; pos < text.size(); pos += CharLength(text.bytes(), pos)) {
    if (!accept(CharAt(text.bytes(), pos))) return false;
  }
  return !text.empty();
}

bool IsAllOneCase(Runtime& runtime, const Text& text, utf8proc_category_t other) {
  bool cased = false;
  const bool none_other = AllChars(runtime, text, [&](int32_t c) {
    cased |= IsCased(c);
    const auto category = utf8proc_category(c);
    return category != other && category != UTF8PROC_CATEGORY_LT;
  });
  return none_other && cased;
}

}  // namespace

Text Upper(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [](int32_t, int32_t) { return Case::kUpper; });
}

Text Lower(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [](int32_t, int32_t) { return Case::kLower; });
}

Text Capitalize(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [first = true](int32_t, int32_t) mutable {
    return std::exchange(first, false) ? Case::kTitle : Case::kLower;
  });
}

Text Title(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [](int32_t, int32_t previous) {
    return IsCased(previous) ? Case::kLower : Case::kTitle;
  });
}

Text TitleWords(Runtime& runtime, const Text& text) {
  return MapCase(runtime, text, [](int32_t, int32_t previous) {
    const bool starts =
        previous == 0 || IsSpace(previous) ||
        (previous < 0x80 &&
         std::string_view("-({[<").find(static_cast<char>(previous)) != std::string_view::npos);
    return starts ? Case::kUpper : Case::kLower;
  });
}

bool IsDigits(Runtime& runtime, const Text& text) {
  return AllChars(runtime, text,
                  [](int32_t c) { return utf8proc_category(c) == UTF8PROC_CATEGORY_ND; });
}

bool IsAlpha(Runtime& runtime, const Text& text) {
  return AllChars(runtime, text, [](int32_t c) {
    const auto category = utf8proc_category(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  });
}

bool IsUpper(Runtime& runtime, const Text& text) {
  return IsAllOneCase(runtime, text, UTF8PROC_CATEGORY_LL);
}

bool IsLower(Runtime& runtime, const Text& text) {
  return IsAllOneCase(runtime, text, UTF8PROC_CATEGORY_LU);
}

}  // namespace banyan::jinja
