#include "text/utf8.h"

#include <cstring>

namespace banyan {
namespace {

struct LeadByte {
  int continuation = 0;  // bytes that follow; 0: not the lead of a multi-byte character
  unsigned char low = 0x80, high = 0xBF;  // range of the first of them
};

LeadByte ClassifyLead(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}

}  // namespace

size_t SkipAscii(std::string_view text, size_t begin) {
  size_t i = begin;
  for (; i + 8 <= text.size(); i += 8) {
    std::uint64_t bytes;
    std::memcpy(&bytes, text.data() + i, 8);
    if ((bytes & 0x8080808080808080ull) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

Utf8Character ReadUtf8(std::string_view text, size_t position) {
  const auto byte_at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte_at(position);
  if (first < 0x80) return {first, 1, true, false};
  const LeadByte lead = ClassifyLead(first);
  if (lead.continuation == 0) return {};
  char32_t code = first & (0x3Fu >> lead.continuation);
  for (int i = 1; i <= lead.continuation; ++i) {
    const auto taken = static_cast<std::uint8_t>(i);
    if (position + static_cast<size_t>(i) >= text.size()) {
      return {kReplacementCharacter, taken, false, true};
    }
    const unsigned char next = byte_at(position + static_cast<size_t>(i));
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (next < low || next > high) return {kReplacementCharacter, taken, false, false};
    code = (code << 6) | (next & 0x3Fu);
  }
  return {code, static_cast<std::uint8_t>(lead.continuation + 1), true, false};
}

void AppendUtf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | (code >> 6)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | (code >> 12)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  } else {
    out.push_back(static_cast<char>(0xF0 | (code >> 18)));
    out.push_back(static_cast<char>(0x80 | ((code >> 12) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | ((code >> 6) & 0x3F)));
    out.push_back(static_cast<char>(0x80 | (code & 0x3F)));
  }
}

bool IsAscii(std::string_view text) { return SkipAscii(text, 0) == text.size(); }

bool IsValidUtf8(std::string_view text) {
  for (size_t i = SkipAscii(text, 0); i < text.size(); i = SkipAscii(text, i)) {
    const Utf8Character c = ReadUtf8(text, i);
    if (!c.valid) return false;
    i += c.length;
  }
  return true;
}

void AppendLossyUtf8(std::string_view bytes, std::string& out) {
  size_t done = 0;  // all before is appended
  for (size_t i = SkipAscii(bytes, 0); i < bytes.size(); i = SkipAscii(bytes, i)) {
    const Utf8Character c = ReadUtf8(bytes, i);
    if (!c.valid) {
      out.append(bytes.substr(done, i - done));
      AppendUtf8(kReplacementCharacter, out);
      done = i + c.length;
    }
    i += c.length;
  }
  out.append(bytes.substr(done));
}

size_t FinishedUtf8Prefix(std::string_view bytes) {
  const size_t first = bytes.size() > 3 ? bytes.size() - 3 : 0;
  for (size_t i = first; i < bytes.size(); ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte >= 0xC0 && ReadUtf8(bytes, i).incomplete) return i;
  }
  return bytes.size();
}

}  // namespace banyan
