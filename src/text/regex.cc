// Translates a pattern from Oniguruma's syntax and runs it with PCRE2.
#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "text/unicode.h"

namespace banyan {
namespace {

constexpr size_t kMaxPatternBytes = 1 << 16;
// Backtracking steps for one match. A run of n spaces needs about n; patterns that need more than
// this for one match are hostile.
constexpr std::uint32_t kMatchLimit = 200'000'000;
constexpr std::uint32_t kHeapLimitKib = 256 * 1024;

// White_Space without U+180E, which PCRE2 counts as horizontal space.
constexpr std::string_view kSpaceClass =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
constexpr std::string_view kNotSpaceClass =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}"
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{"
    "10ffff}";
// Alphabetic, marks, decimal digits, connectors.
constexpr std::string_view kWordClass =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"
    "\\x{1f169}\\x{1f170}-\\x{1f189}";
// Oniguruma adds the other numbers of Latin-1, but only outside of brackets.
constexpr std::string_view kLatin1Numbers = "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

std::string Translate(std::string_view pattern, const std::string& what) {
  std::string out;
  int class_depth = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      const bool inside = class_depth > 0;
      if (escaped == 's' || (escaped == 'S' && inside)) {
        const std::string_view body = escaped == 's' ? kSpaceClass : kNotSpaceClass;
        if (!inside) out += '[';
        out += body;
        if (!inside) out += ']';
      } else if (escaped == 'S') {
        out.append("[^").append(kSpaceClass).append("]");
      } else if (escaped == 'w') {
        if (!inside) out.append("[").append(kLatin1Numbers);
        out += kWordClass;
        if (!inside) out += ']';
      } else if (escaped == 'W' && !inside) {
        out.append("[^").append(kLatin1Numbers).append(kWordClass).append("]");
      } else if (escaped == 'h') {  // Oniguruma: a hexadecimal digit
        out += inside ? "0-9a-fA-F" : "[0-9a-fA-F]";
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[' && class_depth == 0) {
      class_depth = 1;
      out += c;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out += pattern[++i];
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') {  // a leading ] is literal
        out += "\\]";
        ++i;
      }
      continue;
    }
    if (class_depth > 0 && c == '[' && i + 1 < pattern.size() && pattern[i + 1] == ':') {
      const size_t close = pattern.find(":]", i + 2);
      if (close != std::string_view::npos) {  // [:alpha:]
        out += pattern.substr(i, close + 2 - i);
        i = close + 1;
        continue;
      }
    }
    if (class_depth > 0 && (c == '[' || (c == '&' && pattern.substr(i, 2) == "&&"))) {
      Throw(ErrorKind::kUnsupported, "{}: nested character classes in pattern '{}'", what, pattern);
    }
    if (class_depth > 0 && c == ']') class_depth = 0;
    out += c;
  }
  return out;
}

struct MatchDataDelete {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  std::string what;
  ~Compiled() {
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }
};

Regex::Regex(const std::string& pattern, const std::string& what)
    : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > kMaxPatternBytes) {
    Throw(ErrorKind::kLimit, "{}: a pattern of {} bytes, at most {} are allowed", what,
          pattern.size(), kMaxPatternBytes);
  }
  compiled_->what = what;
  const std::string translated = Translate(pattern, what);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled_->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (compiled_->code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    Throw(ErrorKind::kFormat, "{}: bad pattern '{}': {}", what, pattern,
          reinterpret_cast<const char*>(message));
  }
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);  // without JIT the interpreter runs
  compiled_->context = pcre2_match_context_create(nullptr);
  if (compiled_->context == nullptr) Throw(ErrorKind::kLimit, "{}: out of memory", what);
  pcre2_set_match_limit(compiled_->context, kMatchLimit);
  pcre2_set_heap_limit(compiled_->context, kHeapLimitKib);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::FindAll(std::string_view text, std::vector<TextRange>& matches) const {
  const std::unique_ptr<pcre2_match_data, MatchDataDelete> data(
      pcre2_match_data_create(1, nullptr));
  if (data == nullptr) Throw(ErrorKind::kLimit, "{}: out of memory", compiled_->what);
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
  size_t from = 0;
  bool had_match = false;
  size_t last_end = 0;
  while (from <= text.size()) {
    int rc = pcre2_match(compiled_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                         data.get(), compiled_->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
      rc = pcre2_match(compiled_->code, subject, text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data.get(), compiled_->context);
    }
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0) {
      Throw(ErrorKind::kLimit, "{}: the pattern takes too long on this text (PCRE2 error {})",
            compiled_->what, rc);
    }
    const TextRange found{range[0], std::max(range[0], range[1])};
    if (found.begin < from) {  // \K and the like
      Throw(ErrorKind::kUnsupported, "{}: the pattern moves a match's start", compiled_->what);
    }
    if (found.begin == found.end && had_match && found.end == last_end) {
      if (from >= text.size()) return;
      from += ReadUtf8(text, from).length;
      continue;
    }
    matches.push_back(found);
    had_match = true;
    last_end = found.end;
    from = found.end;
  }
}

}  // namespace banyan
