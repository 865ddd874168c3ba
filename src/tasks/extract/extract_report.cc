// Reads documents and rows again and writes them as JSON into the page.
#include "tasks/extract/extract_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <span>
#include <string>
#include <unordered_map>

#include "banyan/extract.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/json.h"
#include "program/fresh_file.h"
#include "tasks/extract/extract_panel.h"
#include "tasks/extract/extract_task.h"
#include "tasks/job/job.h"

namespace banyan {

extern const std::span<const EmbeddedFile> kReportFiles;  // layer.cmake

namespace {

using OrderedJson = nlohmann::ordered_json;  // attributes are shown in the schema's order

// Of one page: it must open quickly.
constexpr std::int64_t kMostDocuments = 10'000;

// JSON inside a script: nothing in it may end the script.
std::string InScript(const OrderedJson& json) {
  std::string text;
  for (const char c : DumpJson(json)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

// Ids and texts, where the input has them.
OrderedJson DocumentsOf(const Json& given) {
  OrderedJson documents = OrderedJson::array();
  for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
    const Json entry = given[i].is_string() ? Json{{"text", given[i]}} : given[i];
    OrderedJson& document = documents.emplace_back(OrderedJson{{"id", i + 1}, {"text", ""}});
    if (!entry.is_object()) continue;
    if (entry.contains("id") && !entry.at("id").is_null()) document["id"] = entry.at("id");
    if (entry.contains("text") && entry.at("text").is_string()) document["text"] = entry.at("text");
  }
  return documents;
}

std::string KeyOfRow(const Json& row) { return row.contains("id") ? DumpJson(row.at("id")) : ""; }

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
  // Takes the text before a mark, and the mark.
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

void CheckReported(const JobOptions& job) {
  if (job.output != "-" && OutputFormatOf(job) == OutputFormat::kJsonLines) return;
  Throw(ErrorKind::kUsage, "--report: expected an output file in JSONL (-o FILE.jsonl), found {}",
        job.output);
}

void WriteExtractReport(const JobOptions& job, const std::string& file) {
  CheckReported(job);
  FreshFile fresh(file, "--report", job.overwrite || job.resume);
  std::unordered_map<std::string, OrderedJson> rows;
  InputRow row;
  InputOptions written_rows;
  written_rows.files = {job.output};
  written_rows.format = "jsonl";
  for (InputReader output(written_rows); output.Next(row);) {
    if (row.problem) continue;
    std::string key = KeyOfRow(row.value);
    rows.emplace(std::move(key), OrderedJson::parse(row.content));
  }
  std::ofstream& page = fresh.stream();
  page << ReportPageBegin() << "{\"rows\":[";
  std::int64_t written = 0;
  JobOptions documents = OfDocuments(job);
  documents.notice = nullptr;
  InputReader input(InputOf(WithIdColumn(documents)));
  while (written < kMostDocuments && input.Next(row)) {
    if (row.problem) continue;
    const auto found = rows.find(KeyOfRow(row.value));
    if (found == rows.end()) continue;
    const OrderedJson& given = found->second;
    OrderedJson shown = {{"id", given.at("id")}, {"text", ""}};
    const auto text = row.value.find("text");
    if (text != row.value.end() && text->is_string()) shown["text"] = *text;
    if (HasDocuments(row)) shown["documents"] = DocumentsOf(row.value.at("documents"));
    for (const char* name : {"category", "values", "confidence", "spans", "sources", "agreeing",
                             "conflicts", "raw", "reasons", "truncated", "error"}) {
      if (given.contains(name)) shown[name] = given.at(name);
    }
    page << (written++ > 0 ? ",\n" : "\n") << InScript(shown);
  }
  page << "\n]}" << ReportPageEnd();
  fresh.Finish();
}

}  // namespace banyan
