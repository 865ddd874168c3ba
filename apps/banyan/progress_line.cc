#include "progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace banyan::app {
namespace {

std::string ShortDuration(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string ProgressText(const JobProgress& progress, bool with_bar) {
  std::string text;
  if (progress.fraction >= 0.0) {
    constexpr int kBarWidth = 20;
    const int filled = static_cast<int>(progress.fraction * kBarWidth);
    if (with_bar) {
      text += fmt::format("[{:#>{}}{:.>{}}] ", "", filled, "", kBarWidth - filled);
    }
    text += fmt::format("{:3.0f} %  ", 100.0 * progress.fraction);
  }
  const double seconds = std::max(progress.seconds, 1e-3);
  const double saved = progress.prompt_tokens > 0
                           ? std::max(0.0, 1.0 - static_cast<double>(progress.prefilled_tokens) /
                                                     static_cast<double>(progress.prompt_tokens))
                           : 0.0;
  text += fmt::format("{} rows  {:.1f} questions/s  {:.0f} tokens/s  {:.0f} % shared",
                      progress.rows, static_cast<double>(progress.rows) / seconds,
                      static_cast<double>(progress.generated_tokens) / seconds, 100.0 * saved);
  if (progress.error_rows > 0) text += fmt::format("  {} errors", progress.error_rows);
  if (!progress.last && progress.fraction > 0.01) {
    const double left = seconds * (1.0 - progress.fraction) / progress.fraction;
    text += fmt::format("  {} left", ShortDuration(left));
  }
  return text;
}

void ProgressLine::Show(const JobProgress& progress) {
  if (terminal_) {
    // Back to the line's start; clear what an earlier, longer one left.
    std::fprintf(stderr, "\r%s\x1b[K%s", ProgressText(progress, true).c_str(),
                 progress.last ? "\n" : "");
    std::fflush(stderr);
    return;
  }
  if (!progress.last && progress.seconds < next_line_) return;
  next_line_ = std::max(progress.seconds * 1.5, progress.seconds + 5.0);
  std::fprintf(stderr, "%s\n", ProgressText(progress, false).c_str());
}

}  // namespace banyan::app
