// Which elements of a page a browser does not show: `hidden`, and display:none or visibility:hidden
// in a style attribute or in a rule of the page's own style sheets. Of selectors, those without
// combinators count (p, .note, p.note, #menu); rules inside @media and the like do not.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

#include "documents/html_scanner.h"

namespace banyan {

class HiddenElements {
 public:
  // Reads the page's style sheets, in one pass.
  explicit HiddenElements(std::string_view html);
  // REQUIRES: a tag that begins.
  bool Hides(const HtmlToken& tag) const;

 private:
  void ReadSheet(std::string_view sheet);
  bool Matches(const std::string& selector) const { return selectors_.contains(selector); }

  std::unordered_set<std::string> selectors_;
};

// The element ends without being closed, where `next` stands among its own children and not deeper:
// a list item before the next one, a paragraph before any block.
bool EndsBefore(std::string_view element, const HtmlToken& next);
// Lists, tables and what else keeps such elements apart.
bool IsContainer(std::string_view name);
// Has no content and no end.
bool IsVoidElement(std::string_view name);

}  // namespace banyan
