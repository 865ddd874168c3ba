// Texts with origins, UTF-8 characters, trimming, letter case and replacement.
#include "text/jinja/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace banyan::jinja {

Text::Text(std::string bytes, bool from_user) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), from_user});
}

void Text::Append(std::string_view bytes, bool from_user) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().from_user == from_user) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), from_user});
  }
}

void Text::AppendSlice(const Text& other, size_t begin, size_t end) {
  BANYAN_CHECK(begin <= end && end <= other.size());
  if (&other == this) return AppendSlice(Text(other), begin, end);
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t at, const Run& r) { return at < r.end; });
  const std::string_view source = other.bytes_;
  while (begin < end) {
    const size_t stop = std::min(end, run->end);
    Append(source.substr(begin, stop - begin), run->from_user);
    begin = stop;
    ++run;
  }
}

Text Text::Slice(size_t begin, size_t end) const {
  Text out;
  out.AppendSlice(*this, begin, end);
  return out;
}

size_t CharLength(std::string_view bytes, size_t pos) {
  if (static_cast<unsigned char>(bytes[pos]) < 0x80) return 1;
  utf8proc_int32_t code_point;
  const auto length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(&bytes[pos]),
                       static_cast<utf8proc_ssize_t>(bytes.size() - pos), &code_point);
  return length <= 0 ? 1 : static_cast<size_t>(length);
}

int32_t CharAt(std::string_view bytes, size_t pos) {
  const auto first = static_cast<unsigned char>(bytes[pos]);
  if (first < 0x80) return first;
  utf8proc_int32_t code_point;
  const auto length =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(&bytes[pos]),
                       static_cast<utf8proc_ssize_t>(bytes.size() - pos), &code_point);
  return length <= 0 ? 0xFFFD : code_point;
}

size_t CountChars(std::string_view bytes) {
  size_t count = 0;
  for (size_t pos = 0; pos < bytes.size(); pos += CharLength(bytes, pos)) ++count;
  return count;
}

void AppendUtf8(std::string& out, int32_t code_point) {
  utf8proc_uint8_t buffer[4];
  const auto length = utf8proc_encode_char(code_point, buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(length));
}

bool IsSpace(int32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
         c == 0x205F || c == 0x3000;
}

namespace {

// Start of the character that ends at `end`. REQUIRES: end > 0.
size_t PreviousChar(std::string_view bytes, size_t end) {
  size_t pos = end - 1;
  const auto continues = [&] { return (static_cast<unsigned char>(bytes[pos]) & 0xC0) == 0x80; };
  while (pos > 0 && end - pos < 4 && continues()) --pos;
  return pos + CharLength(bytes, pos) == end ? pos : end - 1;
}

}  // namespace

ByteRange TrimmedRange(std::string_view bytes, const std::string* chars, TrimSides sides) {
  const auto dropped = [&](size_t pos) {
    if (chars == nullptr) return IsSpace(CharAt(bytes, pos));
    const std::string_view c = bytes.substr(pos, CharLength(bytes, pos));
    for (size_t at = 0; at < chars->size(); at += CharLength(*chars, at)) {
      if (c == std::string_view(*chars).substr(at, CharLength(*chars, at))) return true;
    }
    return false;
  };
  ByteRange range{0, bytes.size()};
  while (sides.left && range.begin < range.end && dropped(range.begin)) {
    range.begin += CharLength(bytes, range.begin);
  }
  while (sides.right && range.begin < range.end) {
    const size_t pos = PreviousChar(bytes, range.end);
    if (!dropped(pos)) break;
    range.end = pos;
  }
  return range;
}

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

Text Trim(Runtime& runtime, const Text& text, const std::string* chars, TrimSides sides) {
  runtime.Bytes(text.size());
  if (chars != nullptr) runtime.Step(static_cast<int64_t>(chars->size()));
  // A long set of characters costs time for each one dropped.
  if (chars != nullptr && chars->size() > 64) {
    runtime.Step(static_cast<int64_t>(text.size() * (chars->size() / 64)));
  }
  const ByteRange range = TrimmedRange(text.bytes(), chars, sides);
  return text.Slice(range.begin, range.end);
}

Text Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t count) {
  const std::string& bytes = text.bytes();
  Text out;
  const auto add = [&](const Text& part, size_t begin, size_t end) {
    runtime.Bytes(end - begin);
    if (out.size() + end - begin > runtime.limits.output_bytes) runtime.Bytes(out.size() + end);
    out.AppendSlice(part, begin, end);
  };
  runtime.Bytes(text.size());
  size_t done = 0;
  for (size_t search = 0; count != 0; --count) {
    runtime.Step();
    size_t at = bytes.find(from.bytes(), search);
    if (at == std::string::npos) break;
    add(text, done, at);
    add(to, 0, to.size());
    done = at + from.size();
    search = done;
    if (from.empty()) {  // between every two characters
      if (done >= bytes.size()) break;
      search = done + CharLength(bytes, done);
    }
  }
  add(text, done, bytes.size());
  return out;
}

}  // namespace banyan::jinja
