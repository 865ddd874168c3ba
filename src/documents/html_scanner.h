// HTML as a sequence of texts and tags, in one pass over the bytes and without a tree: no page
// takes more time or memory than its length. What is not markup is text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace banyan {

inline constexpr std::string_view kHtmlSpaces = " \t\r\n\f";

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

  // False at the end. Comments, declarations and the contents of script and style are left out.
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

// Appends the text with its character references ("&amp;", "&#228;") resolved.
void AppendResolved(std::string_view text, std::string& out);

// Takes the next attribute off the front of `rest`: its name in lower case and its value, resolved.
// False when there is none.
bool NextAttribute(std::string_view& rest, std::string& name, std::string& value);

// ASCII letters in lower case.
std::string LowerCase(std::string_view text);

// The page, which is not UTF-8, converted from the charset that it declares, else from Latin.
std::string HtmlToUtf8(std::string_view html);

}  // namespace banyan
