#include "documents/html_hidden.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace banyan {
namespace {

constexpr std::string_view kHtmlSpace = " \t\r\n\f";
constexpr size_t kMostSelectors = 10'000;  // of a page; a page with more has its reasons, not ours

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kHtmlSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kHtmlSpace) - begin + 1);
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

// Name and value of the next attribute; false: there is none.
bool NextAttribute(std::string_view& rest, std::string& name, std::string& value) {
  const size_t begin = rest.find_first_not_of(" \t\r\n\f/");
  if (begin == std::string_view::npos) return false;
  rest.remove_prefix(begin);
  size_t end = std::min(rest.find_first_of(" \t\r\n\f/=", 1), rest.size());
  name = LowerCase(rest.substr(0, end));
  value.clear();
  rest.remove_prefix(end);
  const size_t equals = rest.find_first_not_of(kHtmlSpace);
  if (equals == std::string_view::npos || rest[equals] != '=') return true;
  rest.remove_prefix(equals + 1);
  rest.remove_prefix(std::min(rest.find_first_not_of(kHtmlSpace), rest.size()));
  if (rest.empty()) return true;
  const bool quoted = rest.front() == '"' || rest.front() == '\'';
  end = quoted ? rest.find(rest.front(), 1) : rest.find_first_of(kHtmlSpace);
  end = std::min(end, rest.size());
  AppendResolved(rest.substr(quoted ? 1 : 0, end - (quoted ? 1 : 0)), value);
  rest.remove_prefix(std::min(end + (quoted ? 1 : 0), rest.size()));
  return true;
}

// Where a word of ASCII stands, in any case; npos: nowhere.
size_t FindWord(std::string_view text, std::string_view word, size_t from) {
  const auto same = [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; };
  const auto found = std::search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                                 word.begin(), word.end(), same);
  return found == text.end() ? std::string_view::npos : static_cast<size_t>(found - text.begin());
}

template <size_t count>
bool IsAmong(std::string_view name, const std::array<std::string_view, count>& names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

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
      const size_t end = std::min(classes.find_first_of(kHtmlSpace), classes.size());
      const std::string one(classes.substr(0, end));
      classes.remove_prefix(std::min(end + 1, classes.size()));
      if (!one.empty() && (Matches("." + one) || Matches(tag.name + "." + one))) return true;
    }
  }
  return false;
}

bool IsContainer(std::string_view name) {
  constexpr std::array<std::string_view, 5> kContainers = {"ul", "ol", "dl", "table", "select"};
  return IsAmong(name, kContainers);
}

bool IsVoidElement(std::string_view name) {
  constexpr std::array<std::string_view, 12> kVoid = {
      "area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "track", "wbr"};
  return IsAmong(name, kVoid);
}

bool EndsBefore(std::string_view element, const HtmlToken& next) {
  constexpr std::array<std::string_view, 3> kCells = {"td", "th", "tr"};
  constexpr std::array<std::string_view, 2> kTerms = {"dt", "dd"};
  constexpr std::array<std::string_view, 24> kBlocks = {
      "p",   "h1",     "h2",     "h3",      "h4",      "h5",         "h6",  "ul",
      "ol",  "dl",     "table",  "section", "article", "blockquote", "pre", "hr",
      "div", "figure", "header", "footer",  "main",    "nav",        "li",  "td"};
  const bool begins = next.kind == HtmlToken::Kind::kBegin;
  if (next.kind == HtmlToken::Kind::kEnd) {  // of what the element stands in
    const bool inside = element == "p" || element == "li" || IsAmong(element, kCells) ||
                        IsAmong(element, kTerms) || element == "option";
    const bool ends_row = next.name == "tr" && (element == "td" || element == "th");
    const bool ends_block = element == "p" && next.name != "p" && IsAmong(next.name, kBlocks);
    return inside && (IsContainer(next.name) || ends_row || ends_block);
  }
  if (!begins) return false;
  if (element == "p") return IsAmong(next.name, kBlocks);
  if (element == "td" || element == "th") return IsAmong(next.name, kCells);
  if (element == "tr") return next.name == "tr";
  if (IsAmong(element, kTerms)) return IsAmong(next.name, kTerms);
  return (element == "li" || element == "option") && next.name == element;
}

}  // namespace banyan
