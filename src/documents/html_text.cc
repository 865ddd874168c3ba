// HTML → text: what a browser would show, in one pass.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/characters.h"
#include "base/error.h"
#include "base/work_budget.h"
#include "documents/document_text.h"
#include "documents/html_scanner.h"
#include "text/unicode.h"

namespace banyan {

#ifdef BANYAN_WITH_LIBXML2
namespace {

template <size_t count>
bool IsAmong(std::string_view name, const std::array<std::string_view, count>& names) {
  return std::ranges::find(names, name) != names.end();
}

constexpr std::array<std::string_view, 9> kUnseen = {
    "script", "style", "title", "template", "svg", "noscript", "canvas", "iframe", "object"};
constexpr std::array<std::string_view, 22> kParagraphs = {
    "p",   "h1",     "h2",     "h3",      "h4",      "h5",         "h6",  "ul",
    "ol",  "dl",     "table",  "section", "article", "blockquote", "pre", "hr",
    "div", "figure", "header", "footer",  "main",    "nav"};
constexpr std::array<std::string_view, 8> kLines = {"br", "li",     "tr",      "dt",
                                                    "dd", "option", "caption", "figcaption"};

constexpr std::array<std::string_view, 12> kVoid = {  // no content and no end
    "area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"};
constexpr std::array<std::string_view, 5> kContainers = {"ul", "ol", "dl", "table", "select"};
constexpr std::array<std::string_view, 3> kCells = {"td", "th", "tr"};
constexpr std::array<std::string_view, 2> kTerms = {"dt", "dd"};

bool IsBlock(std::string_view name) {
  return IsAmong(name, kParagraphs) || name == "li" || name == "td";
}

// Whether the open element ends without being closed where `next` stands among its own children: a
// list item before the next one, a paragraph before any block.
bool EndsBefore(std::string_view element, const HtmlToken& next) {
  if (next.kind == HtmlToken::Kind::kEnd) {  // of what the element stands in
    const bool inside = element == "p" || element == "li" || IsAmong(element, kCells) ||
                        IsAmong(element, kTerms) || element == "option";
    const bool ends_row = next.name == "tr" && (element == "td" || element == "th");
    const bool ends_block = element == "p" && next.name != "p" && IsBlock(next.name);
    return inside && (IsAmong(next.name, kContainers) || ends_row || ends_block);
  }
  if (next.kind != HtmlToken::Kind::kBegin) return false;
  if (element == "p") return IsBlock(next.name);
  if (element == "td" || element == "th") return IsAmong(next.name, kCells);
  if (element == "tr") return next.name == "tr";
  if (IsAmong(element, kTerms)) return IsAmong(next.name, kTerms);
  return (element == "li" || element == "option") && next.name == element;
}

// "color:red;display:none": the last of a property's values counts, as far as we look.
bool StyleHides(std::string_view declarations) {
  bool hides = false;
  while (!declarations.empty()) {
    const size_t end = std::min(declarations.find(';'), declarations.size());
    const std::string_view one = declarations.substr(0, end);
    declarations.remove_prefix(std::min(end + 1, declarations.size()));
    const size_t colon = one.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = LowerCase(Trimmed(one.substr(0, colon)));
    const std::string value = LowerCase(Trimmed(one.substr(colon + 1)));
    if (name == "display") hides = value.starts_with("none");
    if (name == "visibility" && (value.starts_with("hidden") || value.starts_with("collapse"))) {
      hides = true;
    }
  }
  return hides;
}

// Where a word of ASCII stands, in any case; npos: nowhere.
size_t FindWord(std::string_view text, std::string_view word, size_t from) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                                 word.begin(), word.end(), same);
  return found == text.end() ? std::string_view::npos : static_cast<size_t>(found - text.begin());
}

// Which elements a browser does not show: `hidden`, and display:none or visibility:hidden in a
// style attribute or in a rule of the page's own style sheets. Selectors count without combinators
// (p, .note, p.note, #menu); rules inside @media and the like do not.
class HiddenElements {
 public:
  // Reads the page's style sheets, in one pass.
  explicit HiddenElements(std::string_view html);
  // REQUIRES: a tag that begins.
  bool Hides(const HtmlToken& tag) const;

 private:
  static constexpr size_t kMostSelectors = 10'000;  // more of them are ignored
  void ReadSheet(std::string_view sheet);
  bool Matches(const std::string& selector) const { return selectors_.contains(selector); }

  std::unordered_set<std::string> selectors_;
};

HiddenElements::HiddenElements(std::string_view html) {
  for (size_t at = FindWord(html, "<style", 0); at != std::string_view::npos;) {
    const size_t begin = html.find('>', at);
    if (begin == std::string_view::npos) return;
    const size_t end = std::min(FindWord(html, "</style", begin), html.size());
    ReadSheet(html.substr(begin + 1, end - begin - 1));
    at = FindWord(html, "<style", end);
  }
}

// Rules one after another; what stands in a block inside a block is skipped with it.
void HiddenElements::ReadSheet(std::string_view sheet) {
  while (selectors_.size() < kMostSelectors) {
    const size_t open = sheet.find('{');
    if (open == std::string_view::npos) return;
    std::string_view prelude = Trimmed(sheet.substr(0, open));
    if (const size_t comment = prelude.rfind("*/"); comment != std::string_view::npos) {
      prelude = Trimmed(prelude.substr(comment + 2));
    }
    size_t end = open + 1;
    for (int depth = 1; end < sheet.size() && depth > 0; ++end) {
      depth += sheet[end] == '{' ? 1 : sheet[end] == '}' ? -1 : 0;
    }
    const std::string_view body = sheet.substr(open + 1, end - open - 1);
    if (!prelude.starts_with('@') && StyleHides(body.substr(0, body.find('}')))) {
      while (!prelude.empty()) {
        const size_t comma = std::min(prelude.find(','), prelude.size());
        const std::string_view one = Trimmed(prelude.substr(0, comma));
        prelude.remove_prefix(std::min(comma + 1, prelude.size()));
        if (one.find_first_of(" \t\r\n>+~:[*") == std::string_view::npos && !one.empty()) {
          selectors_.emplace(one);
        }
      }
    }
    sheet.remove_prefix(end);
  }
}

bool HiddenElements::Hides(const HtmlToken& tag) const {
  std::string_view rest = tag.attributes;
  std::string name, value;
  if (!selectors_.empty() && Matches(tag.name)) return true;
  while (NextAttribute(rest, name, value)) {
    if (name == "hidden" && value != "until-found") return true;
    if (name == "style" && StyleHides(value)) return true;
    if (selectors_.empty()) continue;
    if (name == "id" && (Matches("#" + value) || Matches(tag.name + "#" + value))) return true;
    if (name != "class") continue;
    std::string_view classes = value;
    while (!classes.empty()) {
      const size_t end = std::min(classes.find_first_of(kHtmlSpaces), classes.size());
      const std::string one(classes.substr(0, end));
      classes.remove_prefix(std::min(end + 1, classes.size()));
      if (!one.empty() && (Matches("." + one) || Matches(tag.name + "." + one))) return true;
    }
  }
  return false;
}

// Text of elements as it is gathered: spaces joined, at most one empty line between blocks.
class TextBlocks {
 public:
  void Append(std::string_view text, bool as_it_is) {
    for (const char c : text) {
      if (c == '\0') continue;
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

// Tags and texts in their order → blocks. Elements that are never closed end where the next one
// like them begins, or with the page.
class PageText {
 public:
  explicit PageText(std::string_view html) : hidden_(html) {}
  void Take(const HtmlToken& token) {
    if (unseen_depth_ > 0 && IsUnseen(token)) return;
    if (token.kind == HtmlToken::Kind::kText) {
      resolved_.clear();
      AppendResolved(token.text, resolved_);
      blocks_.Append(resolved_, inside_pre_ > 0);
    } else if (token.kind == HtmlToken::Kind::kBegin) {
      Begin(token);
    } else {
      End(token.name);
    }
  }
  std::string Finish() { return blocks_.Take(); }

 private:
  // False: the element that is not shown has ended before the token, though it was never closed.
  bool IsUnseen(const HtmlToken& token) {
    if (token.kind == HtmlToken::Kind::kText) return true;
    if (containers_ == 0 && EndsBefore(unseen_, token)) {
      unseen_depth_ = 0;
      return false;
    }
    const int step = token.kind == HtmlToken::Kind::kEnd ? -1 : token.closed ? 0 : 1;
    if (token.name == unseen_) {
      unseen_depth_ += step;
    } else if (IsAmong(token.name, kContainers)) {
      containers_ = std::max(0, containers_ + step);
    }
    return true;
  }

  void Begin(const HtmlToken& token) {
    const std::string& name = token.name;
    if (IsAmong(name, kUnseen) || hidden_.Hides(token)) {
      unseen_ = name;
      unseen_depth_ = token.closed || IsAmong(name, kVoid) ? 0 : 1;
      containers_ = 0;
      return;
    }
    if (name == "table") cell_open_.push_back(false);
    if (name == "td" || name == "th") {
      EndCell();
      if (!token.closed) cell_open_.back() = true;
    }
    if (name == "tr") EndCell();
    if (IsAmong(name, kParagraphs)) {
      blocks_.EndParagraph();
    } else if (IsAmong(name, kLines)) {
      blocks_.EndLine();
    }
    if (name == "li") blocks_.Append("- ", true);
    if (token.closed || name == "br" || name == "hr") return;
    if (name == "pre") ++inside_pre_;
    if (const size_t place = PlaceOf(name); place < open_.size()) ++open_[place];
  }

  // An end without a beginning is ignored.
  void End(const std::string& name) {
    if (name == "td" || name == "th") return EndCell();
    const size_t place = PlaceOf(name);
    if (place == open_.size() || open_[place] == 0) return;
    --open_[place];
    if (name == "tr" || name == "table") EndCell();
    if (name == "table") cell_open_.pop_back();
    if (name == "pre") --inside_pre_;
    if (place < kParagraphs.size()) {
      blocks_.EndParagraph();
    } else {
      blocks_.EndLine();
    }
  }

  void EndCell() {
    if (!cell_open_.back()) return;
    cell_open_.back() = false;
    blocks_.EndCell();
  }

  // Of open_; its size for a name that is neither.
  static size_t PlaceOf(std::string_view name) {
    const auto paragraph = std::ranges::find(kParagraphs, name);
    if (paragraph != kParagraphs.end()) return static_cast<size_t>(paragraph - kParagraphs.begin());
    return kParagraphs.size() +
           static_cast<size_t>(std::ranges::find(kLines, name) - kLines.begin());
  }

  HiddenElements hidden_;
  TextBlocks blocks_;
  std::string resolved_, unseen_;
  int unseen_depth_ = 0, inside_pre_ = 0;
  int containers_ = 0;  // that are open inside the element that is not shown
  std::array<int, kParagraphs.size() + kLines.size()> open_{};
  std::vector<bool> cell_open_ = {false};  // outside all tables, then of each that is open
};

}  // namespace

std::string HtmlText(std::string_view html) {
  // A page that is valid UTF-8 is UTF-8, whatever it declares.
  std::string converted;
  if (!IsValidUtf8(html)) {
    converted = HtmlToUtf8(html);
    html = converted;
  }
  constexpr int kTokensBetweenLooks = 1024;
  PageText page(html);
  HtmlScanner scanner(html);
  HtmlToken token;
  for (int i = 1; scanner.Next(token); ++i) {
    page.Take(token);
    if (i % kTokensBetweenLooks == 0) CheckBudget();
  }
  std::string text = page.Finish();
  if (IsValidUtf8(text)) return text;
  std::string repaired;
  AppendLossyUtf8(text, repaired);
  return repaired;
}

#else

std::string HtmlText(std::string_view) {
  Throw(ErrorKind::kUnsupported, "HTML, and this build has no libxml2; convert it to text first");
}

#endif

}  // namespace banyan
