// The traces of rows as a page: no script, no font and no picture from elsewhere, so that it can be
// sent and kept.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/rag.h"
#include "base/error.h"
#include "base/json_row.h"

namespace banyan {
namespace {

constexpr int kCellWidth = 14, kCellHeight = 18, kLabelWidth = 260, kHeaderHeight = 120;

constexpr std::string_view kPageBegin = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>banyan rag: who wrote what</title><style>
body{font:14px system-ui,sans-serif;margin:2em;color:#222;background:#fff}
section{margin-bottom:3em}h2{font-size:1.1em;margin:0 0 .2em}p{margin:.2em 0}
svg text{font:11px ui-monospace,monospace}.label{text-anchor:end}.grid{stroke:#e4e4e4}
.won{fill:#2a6f4e}.answer{font-weight:600}.few{color:#666}
</style></head><body><h1>Who wrote what</h1>
<p class="few">Tokens from left to right, documents from top to bottom: a mark says that the document
wrote the token. Beside each document: relevance r and contrast β.</p>
)";

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

std::string Drawing(const Json& documents, const Json& tokens) {
  const auto columns = static_cast<int>(tokens.size()), rows = static_cast<int>(documents.size());
  const int width = kLabelWidth + columns * kCellWidth + 20;
  const int height = kHeaderHeight + rows * kCellHeight + 10;
  std::string out = fmt::format(
      "<svg role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n", width, height);
  for (int column = 0; column < columns; ++column) {
    const int x = kLabelWidth + column * kCellWidth + kCellWidth / 2;
    const std::string text =
        TextOrJson(tokens[static_cast<size_t>(column)].value("text", Json("")));
    out +=
        fmt::format("<text class=\"token\" transform=\"translate({},{}) rotate(-60)\">{}</text>\n",
                    x + 3, kHeaderHeight - 6, InHtml(Shortened(text.empty() ? "∎" : text, 24)));
  }
  for (int row = 0; row < rows; ++row) {
    const Json& document = documents[static_cast<size_t>(row)];
    const int y = kHeaderHeight + row * kCellHeight;
    const std::string id = TextOrJson(document.value("id", Json("")));
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n"
        "<text class=\"label\" x=\"{}\" y=\"{}\">{} r {} β {}<title>{}</title></text>\n",
        kLabelWidth, y + kCellHeight / 2, width - 20, y + kCellHeight / 2, kLabelWidth - 8,
        y + kCellHeight / 2 + 4, InHtml(Shortened(id, 20)), Number(document, "relevance"),
        Number(document, "beta"), InHtml(id));
    for (int column = 0; column < columns; ++column) {
      const Json& token = tokens[static_cast<size_t>(column)];
      if (!token.contains("document") || token.at("document") != document.value("id", Json())) {
        continue;
      }
      out += fmt::format(
          "<rect class=\"won\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"2\"><title>{}: "
          "{}</title></rect>\n",
          kLabelWidth + column * kCellWidth + 1, y + 2, kCellWidth - 2, kCellHeight - 4, InHtml(id),
          InHtml(TextOrJson(token.value("text", Json("")))));
    }
  }
  return out + "</svg>\n";
}

}  // namespace

std::string RagTracePage(const std::vector<std::string>& rows) {
  std::string page(kPageBegin);
  for (const std::string& text : rows) {
    const Json row = ParseJsonRow(text);
    if (!row.is_object() || !row.contains("trace")) continue;
    const Json& trace = row.at("trace");
    const Json documents = trace.value("documents", Json::array());
    const Json tokens = trace.value("tokens", Json::array());
    page += fmt::format("<section><h2>{}</h2>\n<p class=\"answer\">{}</p>\n",
                        InHtml(TextOrJson(row.value("question", row.value("id", Json())))),
                        InHtml(TextOrJson(row.value("answer", Json("")))));
    page += Drawing(documents, tokens) + "</section>\n";
  }
  return page + "</body></html>\n";
}

}  // namespace banyan
