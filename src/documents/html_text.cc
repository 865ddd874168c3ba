// HTML → text, by the parser of libxml2.
#include <array>
#include <string>
#include <string_view>

#include "base/error.h"
#include "documents/document_text.h"
#include "text/utf8.h"
#ifdef BANYAN_WITH_LIBXML2
#include <libxml/HTMLparser.h>
#include <libxml/tree.h>
#endif

namespace banyan {

#ifdef BANYAN_WITH_LIBXML2
namespace {

constexpr size_t kMostBytes = 1u << 30;  // the parser counts in int

template <size_t count>
bool IsOneOf(std::string_view name, const std::array<std::string_view, count>& names) {
  for (const std::string_view other : names) {
    if (name == other) return true;
  }
  return false;
}

// Text of elements as it is gathered: spaces joined, at most one empty line between blocks.
class TextBlocks {
 public:
  void Append(std::string_view text, bool as_it_is) {
    for (const char c : text) {
      const bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
      if (space && !as_it_is) {
        space_waits_ = !text_.empty() && text_.back() != '\n';
        continue;
      }
      if (space_waits_) text_ += ' ';
      space_waits_ = false;
      text_ += c;
    }
  }
  void EndLine() {
    space_waits_ = false;
    if (!text_.empty() && text_.back() != '\n') text_ += '\n';
  }
  void EndParagraph() {
    EndLine();
    if (!text_.empty() && !text_.ends_with("\n\n")) text_ += '\n';
  }
  // Between the cells of a table's row.
  void EndCell() { Append("\t", true); }
  std::string Take() {
    while (!text_.empty() && (text_.back() == '\n' || text_.back() == '\t')) text_.pop_back();
    if (!text_.empty()) text_ += '\n';
    return std::move(text_);
  }

 private:
  std::string text_;
  bool space_waits_ = false;
};

constexpr std::array<std::string_view, 9> kUnseen = {
    "script", "style", "head", "template", "svg", "noscript", "canvas", "iframe", "object"};
constexpr std::array<std::string_view, 22> kParagraphs = {
    "p",   "h1",     "h2",     "h3",      "h4",      "h5",         "h6",  "ul",
    "ol",  "dl",     "table",  "section", "article", "blockquote", "pre", "hr",
    "div", "figure", "header", "footer",  "main",    "nav"};
constexpr std::array<std::string_view, 8> kLines = {"br", "li",     "tr",      "dt",
                                                    "dd", "option", "caption", "figcaption"};

// Walks the tree without recursion: pages may be nested deeper than any stack.
void Gather(const xmlNode* root, TextBlocks& out) {
  const auto name_of = [](const xmlNode* node) {
    return node->name == nullptr ? std::string_view()
                                 : std::string_view(reinterpret_cast<const char*>(node->name));
  };
  int inside_pre = 0;
  const auto leave = [&](const xmlNode* node) {
    const std::string_view name = name_of(node);
    if (name == "pre") --inside_pre;
    if (name == "td" || name == "th") out.EndCell();
    if (IsOneOf(name, kParagraphs)) {
      out.EndParagraph();
    } else if (IsOneOf(name, kLines)) {
      out.EndLine();
    }
  };
  const xmlNode* node = root;
  while (node != nullptr) {
    const bool is_text = node->type == XML_TEXT_NODE || node->type == XML_CDATA_SECTION_NODE;
    if (is_text && node->content != nullptr) {
      out.Append(reinterpret_cast<const char*>(node->content), inside_pre > 0);
    }
    const bool element = node->type == XML_ELEMENT_NODE;
    const bool enters = element && !IsOneOf(name_of(node), kUnseen);
    if (enters) {
      if (name_of(node) == "pre") ++inside_pre;
      if (IsOneOf(name_of(node), kParagraphs)) out.EndParagraph();
      if (name_of(node) == "li") out.Append("- ", true);
      if (node->children != nullptr) {
        node = node->children;
        continue;
      }
      leave(node);
    }
    while (node != root && node->next == nullptr) {
      node = node->parent;
      leave(node);
    }
    node = node == root ? nullptr : node->next;
  }
}

}  // namespace

std::string HtmlText(std::string_view html) {
  if (html.size() > kMostBytes) Throw(ErrorKind::kLimit, "longer than {} bytes", kMostBytes);
  // A page that is valid UTF-8 is UTF-8, whatever it says of itself.
  const char* encoding = IsValidUtf8(html) ? "UTF-8" : nullptr;
  htmlDocPtr document =
      ::htmlReadMemory(html.data(), static_cast<int>(html.size()), nullptr, encoding,
                       HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                           HTML_PARSE_NONET | HTML_PARSE_COMPACT);
  if (document == nullptr) return {};
  TextBlocks blocks;
  if (const xmlNode* root = ::xmlDocGetRootElement(document)) Gather(root, blocks);
  ::xmlFreeDoc(document);
  std::string text;
  AppendLossyUtf8(blocks.Take(), text);
  return text;
}

#else

std::string HtmlText(std::string_view) {
  Throw(ErrorKind::kUnsupported, "HTML, and this build has no libxml2; convert it to text first");
}

#endif

}  // namespace banyan
