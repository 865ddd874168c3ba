#include <fmt/format.h>
#include <algorithm>
#include <cmath>

#include "program/score.h"

namespace banyan {

namespace {

// Of the diagram, in pixels.
constexpr double kReliabilityLeft = 56.0, kReliabilityTop = 40.0, kReliabilitySide = 320.0;

// Readable on a light and on a dark page.
constexpr const char* kPlotStyle =
    "<style>text{font:12px system-ui,sans-serif;fill:#1f2328}.back{fill:#fff}"
    ".grid{fill:none;stroke:#8c959f}circle{fill:#1a7f37}polyline{fill:none;stroke:#1a7f37}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.grid{stroke:#656c76}"
    "circle{fill:#3fb950}polyline{stroke:#3fb950}}</style>\n";

double PlotX(double share) { return kReliabilityLeft + share * kReliabilitySide; }
double PlotY(double share) { return kReliabilityTop + (1.0 - share) * kReliabilitySide; }

std::string EscapedForSvg(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      escaped += c;
    }
  }
  return escaped;
}

std::string SvgText(double x, double y, const std::string& anchor, const std::string& text) {
  return fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)"
                     "\n",
                     x, y, anchor, EscapedForSvg(text));
}

}  // namespace

Reliability Calibrate(std::vector<ConfidencePoint> points, int bins) {
  std::ranges::stable_sort(points, {}, &ConfidencePoint::confidence);
  Reliability calibration;
  calibration.count = static_cast<std::int64_t>(points.size());
  const size_t count = points.size();
  const size_t wanted = std::min(count, static_cast<size_t>(std::max(bins, 1)));
  for (size_t i = 0; i < wanted; ++i) {
    const size_t begin = i * count / wanted, end = (i + 1) * count / wanted;
    ReliabilityBin bin{.count = static_cast<std::int64_t>(end - begin),
                       .low = points[begin].confidence,
                       .high = points[end - 1].confidence};
    for (size_t at = begin; at < end; ++at) {
      const double right = points[at].right ? 1.0 : 0.0;
      bin.confidence += points[at].confidence;
      bin.accuracy += right;
      calibration.brier += std::pow(points[at].confidence - right, 2.0);
    }
    bin.confidence /= static_cast<double>(bin.count);
    bin.accuracy /= static_cast<double>(bin.count);
    calibration.expected_error +=
        std::abs(bin.confidence - bin.accuracy) * static_cast<double>(bin.count);
    calibration.bins.push_back(bin);
  }
  if (count > 0) {
    calibration.expected_error /= static_cast<double>(count);
    calibration.brier /= static_cast<double>(count);
  }
  return calibration;
}

std::string CalibrationText(const Reliability& calibration) {
  std::string text = fmt::format(
      "calibration: expected error {:.4f}, Brier score {:.4f}, {} values in {} bins\n\n",
      calibration.expected_error, calibration.brier, calibration.count, calibration.bins.size());
  text += "| confidence | values | mean confidence | right |\n|---|---|---|---|\n";
  for (const ReliabilityBin& bin : calibration.bins) {
    text += fmt::format("| {:.3f} to {:.3f} | {} | {:.3f} | {:.3f} |\n", bin.low, bin.high,
                        bin.count, bin.confidence, bin.accuracy);
  }
  return text;
}

std::string ReliabilitySvg(const Reliability& calibration, const std::string& title) {
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="420" height="430" viewBox="0 0 420 430" )"
      R"(role="img"><title>{0}</title>)"
      "\n{1}"
      R"(<rect width="420" height="430" class="back"/>)"
      "\n"
      R"(<rect x="{2}" y="{3}" width="{4}" height="{4}" class="grid"/>)"
      "\n"
      R"(<line x1="{5}" y1="{6}" x2="{7}" y2="{8}" class="grid" stroke-dasharray="4 4"/>)"
      "\n",
      EscapedForSvg(title), kPlotStyle, kReliabilityLeft, kReliabilityTop, kReliabilitySide,
      PlotX(0), PlotY(0), PlotX(1), PlotY(1));
  svg += SvgText(PlotX(0.5), 24, "middle",
                 fmt::format("{} (calibration error {:.3f}, {} values)", title,
                             calibration.expected_error, calibration.count));
  for (int tick = 0; tick <= 10; tick += 2) {
    const double share = tick / 10.0;
    svg += SvgText(PlotX(share), PlotY(0) + 18, "middle", fmt::format("{:.1f}", share));
    svg += SvgText(kReliabilityLeft - 6, PlotY(share) + 4, "end", fmt::format("{:.1f}", share));
  }
  svg += SvgText(PlotX(0.5), PlotY(0) + 40, "middle", "confidence");
  svg += fmt::format(
      R"--(<text transform="translate(16 {:.1f}) rotate(-90)" text-anchor="middle">right</text>)--"
      "\n",
      PlotY(0.5));
  std::string line;
  for (const ReliabilityBin& bin : calibration.bins) {
    const double x = PlotX(bin.confidence), y = PlotY(bin.accuracy);
    line += fmt::format("{}{:.1f},{:.1f}", line.empty() ? "" : " ", x, y);
    svg += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4"><title>)"
                       "{} values, mean confidence {:.3f}, {:.3f} right</title></circle>\n",
                       x, y, bin.count, bin.confidence, bin.accuracy);
  }
  svg += fmt::format(R"(<polyline points="{}"/>)", line);
  return svg + "\n</svg>\n";
}

}  // namespace banyan
