// Strings of the template interpreter: UTF-8 bytes that remember which of them the caller supplied.
// The methods of Python's str are in functions.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"

namespace banyan::jinja {

// Bytes [previous run's end, end) have one origin.
struct Run {
  size_t end;
  bool from_user;
};

// Invariant: runs are ordered, not empty, alternate in origin, and the last one ends at
// bytes().size().
class Text {
 public:
  Text() = default;
  explicit Text(std::string bytes, bool from_user = false);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  const std::vector<Run>& runs() const { return runs_; }
  bool HasUser() const { return runs_.size() > 1 || (!runs_.empty() && runs_[0].from_user); }

  void Append(std::string_view bytes, bool from_user);
  void Append(const Text& other) { AppendSlice(other, 0, other.size()); }
  // Appends bytes [begin, end) of `other` with their origins.
  void AppendSlice(const Text& other, size_t begin, size_t end);
  [[nodiscard]] Text Slice(size_t begin, size_t end) const;

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// Bytes of the character at `pos`; a byte that starts no valid UTF-8 sequence is one character.
// REQUIRES: pos < bytes.size().
size_t CharLength(std::string_view bytes, size_t pos);

// The code point at `pos`; invalid bytes give U+FFFD.
int32_t CharAt(std::string_view bytes, size_t pos);

// Characters, not bytes: what Python's len() counts.
size_t CountChars(std::string_view bytes);

void AppendUtf8(std::string& out, int32_t code_point);

// As Python's str.isspace() of one character.
bool IsSpace(int32_t code_point);

// [begin, end) of `bytes` without surrounding white space, or without the characters in `chars`
// when that is not null, on the chosen sides.
struct TrimSides {
  bool left = true;
  bool right = true;
};
struct ByteRange {
  size_t begin;
  size_t end;
};
ByteRange TrimmedRange(std::string_view bytes, const std::string* chars, TrimSides sides);

// Without the white space, or the characters of `chars` when that is not null, on those sides.
Text Trim(Runtime& runtime, const Text& text, const std::string* chars, TrimSides sides);
// At most `count` replacements, all when negative. Every part keeps its origin.
Text Replace(Runtime& runtime, const Text& text, const Text& from, const Text& to, int64_t count);

// The result is all user text when any part of `text` is: the safe side.
Text Upper(Runtime& runtime, const Text& text);
Text Lower(Runtime& runtime, const Text& text);
// First character upper case, the others lower case.
Text Capitalize(Runtime& runtime, const Text& text);

}  // namespace banyan::jinja
