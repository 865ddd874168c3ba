#include "tasks/extract/extract_report_page.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <string>

#include "base/files.h"
#include "base/hash.h"

namespace banyan {

extern const std::span<const EmbeddedFile> kReportFiles;  // layer.cmake

namespace {

std::string_view ReportFile(std::string_view name) {
  const auto found = std::ranges::find(kReportFiles, name, &EmbeddedFile::name);
  assert(found != kReportFiles.end());
  return found->bytes;
}

// Of all scripts only the page's own may run: the page's policy names it by its hash. `script`: all
// that stands between <script> and </script>.
std::string ScriptHash(std::string_view script) {
  const Digest digest = Sha256().Add(script).Finish();
  return "sha256-" + Base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

struct ReportPage {
  std::string begin, end;  // before and after the data
};

ReportPage MakeReportPage() {
  std::string_view frame = ReportFile("extract_report.html");
  // What stands before a mark, which goes together with it.
  const auto until = [&](std::string_view mark) {
    const size_t at = frame.find(mark);
    assert(at != std::string_view::npos);
    const std::string_view before = frame.substr(0, at);
    frame.remove_prefix(at + mark.size());
    return std::string(before);
  };
  const std::string script = "\n" + std::string(ReportFile("extract_report.js"));
  ReportPage page;
  page.begin = until("{SCRIPT_HASH}") + ScriptHash(script);
  page.begin += until("{STYLE}") + std::string(ReportFile("extract_report.css"));
  page.begin += until("{DATA}");
  page.end = until("{SCRIPT}") + script;
  page.end += frame;
  return page;
}

const ReportPage& TheReportPage() {
  static const ReportPage page = MakeReportPage();
  return page;
}

}  // namespace

std::string_view ReportPageBegin() { return TheReportPage().begin; }
std::string_view ReportPageEnd() { return TheReportPage().end; }

}  // namespace banyan
