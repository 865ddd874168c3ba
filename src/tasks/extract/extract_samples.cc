#include "tasks/extract/extract_samples.h"

#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/error.h"
#include "tasks/extract/extract_task.h"
#include "tasks/job/job.h"
#include "tasks/job/record_window.h"
#include "values/value_text.h"

namespace banyan {
namespace {

// Why a row is no sample; empty: it is one.
std::string Unfit(const InputRow& row, std::set<std::string>& texts) {
  if (row.problem) return row.problem->message;
  const auto text = row.value.find("text");
  if (text == row.value.end() || !text->is_string()) return "it has no field 'text'";
  const std::string plain = PlainText(text->get<std::string>());
  if (FoldedWords(plain).empty()) return "it has no words";
  if (!texts.insert(plain).second) return "its text came before";
  return "";
}

}  // namespace

std::vector<InputRow> ReadSamples(const JobOptions& job, size_t least, size_t most) {
  InputReader input(InputOf(OfDocuments(job)));
  std::vector<InputRow> samples;
  std::set<std::string> texts;
  InputRow row;
  while (samples.size() < most && input.Next(row)) {
    const std::string reason = Unfit(row, texts);
    if (reason.empty()) {
      samples.push_back(std::move(row));
    } else if (job.notice) {
      const std::string line = row.line > 0 ? fmt::format(" line {}", row.line) : "";
      job.notice(fmt::format("extract schema: {}{}: left out: {}", row.file, line, reason));
    }
    row = {};
  }
  if (samples.size() < least) {
    Throw(ErrorKind::kUsage,
          "extract schema: expected at least {} different documents with words, found {}", least,
          samples.size());
  }
  return samples;
}

std::vector<nlohmann::ordered_json> ExtractSamples(std::shared_ptr<Model> model,
                                                   const EngineOptions& engine_options,
                                                   const ExtractOptions& extract,
                                                   const std::vector<InputRow>& samples) {
  ExtractTask task(model, extract);
  Engine engine(model, engine_options);
  OneRowEach made(samples.size());
  RecordWindow window([&](PromptSegment& prompt) { return engine.TrySubmit(prompt); }, made);
  for (size_t i = 0; i < samples.size(); ++i) window.Add(i, task, *model, samples[i]);
  window.RunToEnd(engine);
  std::vector<nlohmann::ordered_json> rows;
  for (OutputRow& row : made.rows) rows.push_back(std::move(row.fields));
  return rows;
}

}  // namespace banyan
