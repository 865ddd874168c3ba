// The traces of rows as a page without scripts or external files.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/rag.h"
#include "base/error.h"
#include "base/json.h"

namespace banyan {
namespace {

constexpr int kCellWidth = 16, kCellHeight = 24;
constexpr size_t kTokenBytes = 14;  // that are shown of a token
// Hues of neighbouring documents are far apart, and none comes twice.
constexpr int kFirstHue = 150;
constexpr double kHueStep = 137.5;

constexpr std::string_view kPageBegin = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="banyan"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>banyan rag: who wrote what</title><style>
:root{color-scheme:light dark;--back:#faf9f6;--card:#fff;--front:#23221f;--faint:#6a675f;--line:#e2ded4;--rule:#efece5;
--accent:#2c6e4c;--tint:91%;--chroma:.055;--ink:52%}
@media(prefers-color-scheme:dark){:root{--back:#191816;--card:#211f1c;--front:#ebe7de;--faint:#a39d91;--line:#38352f;
--rule:#2b2925;--accent:#7cc49a;--tint:37%;--chroma:.06;--ink:74%}}
*{box-sizing:border-box}body{font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,Inter,sans-serif;margin:0 auto;
max-width:1100px;padding:32px clamp(16px,4vw,40px) 64px;color:var(--front);background:var(--back)}
h1{font-size:22px;margin:0 0 6px}h2{font-size:16px;font-weight:600;margin:0 0 4px;overflow-wrap:anywhere}p{margin:0 0 10px}
.few{color:var(--faint);max-width:70ch}section{background:var(--card);border:1px solid var(--line);border-radius:12px;
padding:18px 20px 14px;margin-top:22px;content-visibility:auto;contain-intrinsic-size:auto 300px}
.answer{font:20px/1.5 "Iowan Old Style","Palatino Linotype",Palatino,P052,Georgia,serif;white-space:pre-wrap;
overflow-wrap:anywhere}.answer span{background:oklch(var(--tint) var(--chroma) var(--hue));
border-bottom:2px solid oklch(var(--ink) .13 var(--hue))}
.trace{display:grid;grid-template-columns:minmax(110px,250px) minmax(0,1fr)}
.names{list-style:none;margin:0;padding:0 14px 0 0}.names li{height:24px;line-height:24px;display:flex;gap:8px}
.names b{font-weight:500;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;flex:1;font-size:14px}
.names small{color:var(--faint);white-space:nowrap;font-size:12px;font-variant-numeric:tabular-nums}
.names .silent b{color:var(--faint)}.scroll{overflow-x:auto}.scroll:focus-visible{outline:2px solid var(--accent)}
svg{display:block}svg text{font:12px ui-monospace,"DejaVu Sans Mono",monospace;fill:var(--front)}.grid{stroke:var(--rule)}
.won{fill:oklch(var(--ink) .13 var(--hue))}
@media(max-width:600px){.names small{display:none}.trace{grid-template-columns:110px minmax(0,1fr)}}
</style></head><body><h1>Who wrote what</h1>
<p class="few">Tokens from left to right, documents from top to bottom: a mark says that the document
wrote the token. Beside each document: relevance r and contrast β.</p>
)html";

std::string InHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        // Control characters may not stand in a page.
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

std::string Shortened(std::string text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string Number(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it == object.end() || !it->is_number() ? "–" : fmt::format("{:.3f}", it->get<double>());
}

double HueOf(size_t document) {
  return std::fmod(kFirstHue + kHueStep * static_cast<double>(document), 360.0);
}

// Document ids → their place in the list.
std::map<std::string, size_t> PlacesOf(const Json& documents) {
  std::map<std::string, size_t> places;
  for (size_t i = 0; i < documents.size(); ++i) {
    places.emplace(DumpJson(documents[i].value("id", Json())), i);
  }
  return places;
}

// A token with the document that wrote it.
struct WrittenToken {
  std::string text;
  std::optional<size_t> document;
};

std::vector<WrittenToken> TokensOf(const Json& tokens, const Json& documents) {
  const std::map<std::string, size_t> places = PlacesOf(documents);
  std::vector<WrittenToken> written;
  for (const Json& token : tokens) {
    WrittenToken one{TextOrJson(token.value("text", Json(""))), std::nullopt};
    const auto place = places.find(DumpJson(token.value("document", Json())));
    if (place != places.end()) one.document = place->second;
    written.push_back(std::move(one));
  }
  return written;
}

// Pixels above the first document's row: room for the longest token, which is written upwards.
int HeaderHeight(const std::vector<WrittenToken>& tokens) {
  size_t longest = 1;
  for (const WrittenToken& token : tokens) longest = std::max(longest, token.text.size());
  return 20 + 6 * static_cast<int>(std::min(longest, kTokenBytes + 1));
}

std::string Names(const Json& documents, const std::vector<size_t>& counts, int header) {
  std::string out = fmt::format(
      "<ul class=\"names\" aria-label=\"Documents\" style=\"padding-top:{}px\">\n", header);
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::string id = TextOrJson(documents[i].value("id", Json("")));
    out +=
        fmt::format("<li{} title=\"{} wrote {} tokens\"><b>{}</b><small>r {} β {}</small></li>\n",
                    counts[i] > 0 ? "" : " class=\"silent\"", InHtml(id), counts[i], InHtml(id),
                    Number(documents[i], "relevance"), Number(documents[i], "beta"));
  }
  return out + "</ul>\n";
}

// Tokens written upwards over their columns, a mark in the row of the document that wrote each.
std::string Drawing(const std::vector<WrittenToken>& tokens, const Json& documents,
                    const std::string& in_words, int header) {
  const auto columns = static_cast<int>(tokens.size()), rows = static_cast<int>(documents.size());
  const int width = columns * kCellWidth + 64, height = header + rows * kCellHeight + 8;
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Tokens\"><svg role=\"img\" "
      "aria-label=\"{2}\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n",
      width, height, InHtml(in_words));
  for (int row = 0; row < rows; ++row) {
    const int y = header + row * kCellHeight + kCellHeight / 2;
    out += fmt::format("<line class=\"grid\" x1=\"0\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/>\n", y,
                       columns * kCellWidth);
  }
  for (int column = 0; column < columns; ++column) {
    const WrittenToken& token = tokens[static_cast<size_t>(column)];
    const int x = column * kCellWidth;
    out += fmt::format(
        "<text class=\"token\" transform=\"translate({},{}) rotate(-60)\">{}</text>\n", x + 11,
        header - 6, InHtml(Shortened(token.text.empty() ? "∎" : token.text, kTokenBytes)));
    if (!token.document) continue;
    const int y = header + static_cast<int>(*token.document) * kCellHeight;
    out += fmt::format(
        "<rect class=\"won\" style=\"--hue:{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
        "rx=\"3\"><title>{}: {}</title></rect>\n",
        HueOf(*token.document), x + 1, y + 3, kCellWidth - 2, kCellHeight - 6,
        InHtml(TextOrJson(documents[*token.document].value("id", Json("")))), InHtml(token.text));
  }
  return out + "</svg></div>\n";
}

std::string DrawAnswer(const std::vector<WrittenToken>& tokens, const Json& row) {
  if (row.value("answer", Json()).is_null()) return "<p class=\"few\">The text does not say.</p>\n";
  std::string out = "<p class=\"answer\">";
  if (tokens.empty()) out += InHtml(TextOrJson(row.at("answer")));
  for (size_t i = 0; i < tokens.size();) {  // neighbours of one document are one piece
    std::string text;
    const std::optional<size_t> document = tokens[i].document;
    for (; i < tokens.size() && tokens[i].document == document; ++i) text += tokens[i].text;
    if (text.empty()) continue;
    out += document
               ? fmt::format("<span style=\"--hue:{}\">{}</span>", HueOf(*document), InHtml(text))
               : InHtml(text);
  }
  return out + "</p>\n";
}

std::string Section(const Json& row) {
  const Json& trace = row.at("trace");
  const Json documents = trace.value("documents", Json::array());
  const std::vector<WrittenToken> tokens =
      TokensOf(trace.value("tokens", Json::array()), documents);
  std::vector<size_t> counts(documents.size(), 0);
  for (const WrittenToken& token : tokens) {
    if (token.document) ++counts[*token.document];
  }
  std::string in_words = fmt::format("{} tokens", tokens.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    in_words +=
        fmt::format(", {} by {}", counts[i], TextOrJson(documents[i].value("id", Json(""))));
  }
  const int header = HeaderHeight(tokens);
  return fmt::format("<section><h2>{}</h2>\n{}<div class=\"trace\">\n{}{}</div></section>\n",
                     InHtml(TextOrJson(row.value("question", row.value("id", Json())))),
                     DrawAnswer(tokens, row), Names(documents, counts, header),
                     Drawing(tokens, documents, in_words, header));
}

}  // namespace

std::string RagTracePage(const std::vector<std::string>& rows) {
  std::string page(kPageBegin);
  for (const std::string& text : rows) {
    const Json row = ParseJsonRow(text);
    if (!row.is_object() || !row.contains("trace")) continue;
    page += Section(row);
  }
  return page + "</body></html>\n";
}

}  // namespace banyan
