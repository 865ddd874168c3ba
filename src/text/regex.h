// Pre-tokenizer patterns, run by PCRE2. The files' patterns are written for Oniguruma; the few
// constructs that the two read differently (\s, \w, line anchors) are translated.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace banyan {

struct TextRange {  // bytes [begin, end)
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const TextRange&) const = default;
};

// Immutable and safe to use from many threads at once.
class Regex {
 public:
  // `what` names the pattern's source in messages. Throws kFormat for a bad pattern.
  Regex(const std::string& pattern, const std::string& what);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Appends every match from left to right; matches do not overlap, and an empty match never
  // touches the end of the one before. Throws kLimit when a match takes too long.
  // REQUIRES: text is well-formed UTF-8.
  void FindAll(std::string_view text, std::vector<TextRange>& matches) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace banyan
