// The characters of a pattern, one after another, and what stands for one character: escapes and
// classes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/error.h"
#include "constrain/character_set.h"

namespace banyan {

class PatternText {
 public:
  // Throws kInput when it is not well-formed UTF-8.
  explicit PatternText(std::string_view utf8);

  bool AtEnd() const { return at_ == text_.size(); }
  size_t at() const { return at_; }
  char32_t Peek() const { return text_[at_]; }  // REQUIRES: not AtEnd()
  char32_t Read() { return text_[at_++]; }      // REQUIRES: not AtEnd()
  bool Take(char32_t wanted) {
    if (AtEnd() || Peek() != wanted) return false;
    ++at_;
    return true;
  }
  // Whether the character after the next one is `wanted`.
  bool FollowedBy(char32_t wanted) const {
    return at_ + 1 < text_.size() && text_[at_ + 1] == wanted;
  }
  bool NextIsLast() const { return at_ + 1 == text_.size(); }

  // What follows the backslash at `begin`: one character or a class.
  CharacterSet Escape(size_t begin);
  // What follows the bracket at `begin`, up to and with its end. Never empty.
  CharacterSet Class(size_t begin);

  // Throws "pattern, character N: reason"; `place` counts from 0, N from 1.
  [[noreturn]] static void Refuse(ErrorKind kind, size_t place, const std::string& reason);

 private:
  CharacterSet ClassMember();
  char32_t Hexadecimal(size_t begin, int digits);
  // Up to `most` digits; how many there were is in `read`.
  char32_t HexDigits(int most, int& read);

  std::u32string text_;
  size_t at_ = 0;
};

inline bool IsAsciiLetter(char32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }

}  // namespace banyan
