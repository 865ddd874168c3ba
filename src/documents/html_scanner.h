// HTML as a row of texts and tags, in one pass over the bytes and without a tree: no page takes
// more time or memory than its length. What is no markup is text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace banyan {

struct HtmlToken {
  enum class Kind { kText, kBegin, kEnd };
  Kind kind = Kind::kText;
  std::string name;             // of a tag, in lower case; cut where no known name is as long
  std::string_view text;        // as it is written, character references included
  std::string_view attributes;  // of a tag that begins, as they are written
  bool closed = false;          // "<br/>"
};

class HtmlScanner {
 public:
  explicit HtmlScanner(std::string_view html) : html_(html) {}

  // False at the end. Comments, declarations and what stands in script and style are left out.
  bool Next(HtmlToken& token);

 private:
  bool ReadTag(HtmlToken& token);
  void SkipComment();
  void SkipAttributes(HtmlToken& token);
  void SkipRawText(std::string_view name);
  size_t Find(std::string_view what, size_t from) const;

  std::string_view html_;
  size_t at_ = 0;
};

// The text with its character references ("&amp;", "&#228;") resolved.
void AppendResolved(std::string_view text, std::string& out);

}  // namespace banyan
