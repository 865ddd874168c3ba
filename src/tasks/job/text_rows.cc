#include "program/text_rows.h"

#include "base/error.h"
#include "base/json.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

TextRow TextRowOf(const InputRow& row) {
  TextRow text;
  const auto id = row.value.find("id");
  if (id != row.value.end()) text.id = DumpJson(*id);
  const auto fail = [&](ErrorKind kind, const std::string& why) {
    text.kind = kind;
    const std::string where =
        row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
    text.problem = why.starts_with(row.file) ? why : fmt::format("{}: {}", where, why);
    return text;
  };
  if (row.problem) return fail(row.problem->kind, row.problem->message);
  const auto found = row.value.find("text");
  if (found == row.value.end()) return fail(ErrorKind::kInput, "expected a field 'text'");
  if (!found->is_string()) {
    return fail(ErrorKind::kInput,
                fmt::format("'text': expected a string, found {}", TypeName(*found)));
  }
  text.text = found->get<std::string>();
  return text;
}

}  // namespace

void ForEachText(const JobOptions& job, const std::function<void(const TextRow&)>& take) {
  JobOptions inputs = job;
  inputs.output = "-";
  inputs.receipt.clear();
  inputs.document_field = "text";
  inputs.other_document_field = "context";
  inputs.needed_columns = {{"text"}};
  CheckJob(inputs);
  InputReader reader(InputOf(inputs));
  InputRow row;
  for (std::int64_t read = 0; (job.limit < 0 || read < job.limit) && reader.Next(row); ++read) {
    const TextRow text = TextRowOf(row);
    if (job.strict && !text.problem.empty()) {
      Throw(text.kind, "{} (--strict)", text.problem);
    }
    take(text);
  }
}

}  // namespace banyan
