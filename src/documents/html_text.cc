// HTML → text: what a browser would show, in one pass.
#include <iconv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/work_budget.h"
#include "documents/document_text.h"
#include "documents/html_hidden.h"
#include "documents/html_scanner.h"
#include "text/utf8.h"

namespace banyan {

#ifdef BANYAN_WITH_LIBXML2
namespace {

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

constexpr std::array<std::string_view, 9> kUnseen = {
    "script", "style", "title", "template", "svg", "noscript", "canvas", "iframe", "object"};
constexpr std::array<std::string_view, 22> kParagraphs = {
    "p",   "h1",     "h2",     "h3",      "h4",      "h5",         "h6",  "ul",
    "ol",  "dl",     "table",  "section", "article", "blockquote", "pre", "hr",
    "div", "figure", "header", "footer",  "main",    "nav"};
constexpr std::array<std::string_view, 8> kLines = {"br", "li",     "tr",      "dt",
                                                    "dd", "option", "caption", "figcaption"};

// Tags and texts in their order → blocks. Elements that nobody closes end where the next one like
// them begins, or with the page.
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
  // False: the element that is not shown has ended before the token, though nobody closed it.
  bool IsUnseen(const HtmlToken& token) {
    if (token.kind == HtmlToken::Kind::kText) return true;
    if (containers_ == 0 && EndsBefore(unseen_, token)) {
      unseen_depth_ = 0;
      return false;
    }
    const int step = token.kind == HtmlToken::Kind::kEnd ? -1 : token.closed ? 0 : 1;
    if (token.name == unseen_) {
      unseen_depth_ += step;
    } else if (IsContainer(token.name)) {
      containers_ = std::max(0, containers_ + step);
    }
    return true;
  }

  void Begin(const HtmlToken& token) {
    const std::string& name = token.name;
    if (IsOneOf(name, kUnseen) || hidden_.Hides(token)) {
      unseen_ = name;
      unseen_depth_ = token.closed || IsVoidElement(name) ? 0 : 1;
      containers_ = 0;
      return;
    }
    if (name == "table") cell_open_.push_back(false);
    if (name == "td" || name == "th") {
      EndCell();
      if (!token.closed) cell_open_.back() = true;
    }
    if (name == "tr") EndCell();
    if (IsOneOf(name, kParagraphs)) {
      blocks_.EndParagraph();
    } else if (IsOneOf(name, kLines)) {
      blocks_.EndLine();
    }
    if (name == "li") blocks_.Append("- ", true);
    if (token.closed || name == "br" || name == "hr") return;
    if (name == "pre") ++inside_pre_;
    if (const size_t place = PlaceOf(name); place < open_.size()) ++open_[place];
  }

  // What nobody began is not ended.
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

// What the page says its letters are, in the first tags that can say it.
std::string DeclaredCharset(std::string_view html) {
  constexpr size_t kLookAt = 4096;
  HtmlScanner scanner(html.substr(0, kLookAt));
  HtmlToken token;
  while (scanner.Next(token)) {
    if (token.kind != HtmlToken::Kind::kBegin || token.name != "meta") continue;
    std::string attributes(token.attributes);
    std::ranges::transform(attributes, attributes.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const size_t place = attributes.find("charset");
    if (place == std::string::npos) continue;
    const size_t begin = attributes.find_first_not_of(" =\"'", place + 7);
    if (begin == std::string::npos) continue;
    const size_t end = attributes.find_first_of(" \"';/>", begin);
    return attributes.substr(begin, std::min(end, attributes.size()) - begin);
  }
  return {};
}

// Only letters that pages are written in; others are taken for Latin.
std::string KnownCharset(const std::string& name) {
  for (const char* known :
       {"iso-8859-", "windows-12", "windows-874", "koi8-", "shift_jis", "euc-jp", "euc-kr",
        "gb2312", "gbk", "gb18030", "big5", "macintosh", "cp125"}) {
    const bool plain = std::ranges::all_of(
        name, [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_'; });
    if (plain && name.size() < 20 && name.starts_with(known)) return name;
  }
  return "windows-1252";
}

// Bytes that stand for nothing become U+FFFD.
std::string ToUtf8(std::string_view bytes, const std::string& charset) {
  const iconv_t converter = ::iconv_open("UTF-8", charset.c_str());
  std::string text;
  if (converter == reinterpret_cast<iconv_t>(-1)) {
    AppendLossyUtf8(bytes, text);
    return text;
  }
  std::array<char, 1 << 16> chunk{};
  char* in = const_cast<char*>(bytes.data());
  size_t left = bytes.size();
  while (left > 0) {
    char* out = chunk.data();
    size_t room = chunk.size();
    const size_t result = ::iconv(converter, &in, &left, &out, &room);
    text.append(chunk.data(), chunk.size() - room);
    if (result == static_cast<size_t>(-1) && errno != E2BIG && left > 0) {
      text += "\xEF\xBF\xBD";
      ++in;
      --left;
    }
  }
  ::iconv_close(converter);
  return text;
}

}  // namespace

std::string HtmlText(std::string_view html) {
  // A page that is valid UTF-8 is UTF-8, whatever it says of itself.
  std::string converted;
  if (!IsValidUtf8(html)) {
    converted = ToUtf8(html, KnownCharset(DeclaredCharset(html)));
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
