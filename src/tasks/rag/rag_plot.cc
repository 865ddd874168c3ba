#include <algorithm>
#include <string>

#include "base/characters.h"
#include "base/error.h"
#include "program/rag_sweep.h"

namespace banyan {
namespace {

constexpr int kPlotRow = 26, kPlotTop = 46, kPlotWidth = 460, kPlotLetter = 7;

std::string TextInSvg(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string RagScoresPlot(const std::vector<RagScore>& scores) {
  size_t longest = 8;
  for (const RagScore& s : scores)
    longest = std::max(longest, static_cast<size_t>(CountCharacters(s.method)));
  const int left = 20 + kPlotLetter * static_cast<int>(longest);
  const auto rows = static_cast<int>(scores.size());
  const int width = left + kPlotWidth + 70, height = kPlotTop + rows * kPlotRow + 16;
  const auto x = [&](double share) { return left + share * kPlotWidth; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<title>Exact match with 95 % intervals</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      width, height);
  for (int tenth = 0; tenth <= 10; tenth += 2) {
    const double at = x(tenth / 10.0);
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" fill=\"#555\">{4} %</text>\n",
        at, kPlotTop - 8, height - 12, kPlotTop - 16, tenth * 10);
  }
  for (int row = 0; row < rows; ++row) {
    const RagScore& s = scores[static_cast<size_t>(row)];
    const int y = kPlotTop + row * kPlotRow + kPlotRow / 2;
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>"
        "<line x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" stroke=\"#357\" "
        "stroke-width=\"2\"/><circle cx=\"{:.1f}\" cy=\"{}\" r=\"4\" fill=\"#357\"/>"
        "<text x=\"{:.1f}\" y=\"{}\" fill=\"#555\">{:.1f}</text>\n",
        left - 10, y + 4, TextInSvg(s.method), x(s.exact_interval.low), y, x(s.exact_interval.high),
        y, x(s.exact), y, x(1.0) + 10, y + 4, 100.0 * s.exact);
  }
  return svg + "</svg>\n";
}

}  // namespace banyan
