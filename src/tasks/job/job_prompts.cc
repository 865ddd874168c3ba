// What a task asks of rows, as text: `--show-prompt`.
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

// The prompts of a tree, each once, in order.
void GatherPrompts(const PromptSegment& segment, std::vector<TokenId>& path,
                   std::vector<std::vector<TokenId>>& prompts) {
  path.insert(path.end(), segment.tokens.begin(), segment.tokens.end());
  if (!segment.answers.empty()) prompts.push_back(path);
  for (const PromptSegment& below : segment.below) GatherPrompts(below, path, prompts);
  path.resize(path.size() - segment.tokens.size());
}

}  // namespace

std::string ShowTaskPrompts(const Text& text, Task& task, RowSource& rows, std::int64_t count) {
  std::string shown;
  InputRow row;
  for (std::int64_t read = 0; read < count && rows.Next(row); ++read) {
    const std::string place =
        row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
    try {
      if (row.problem) throw Error(row.problem->kind, row.problem->message);
      const std::unique_ptr<RecordWork> work = task.Start(row);
      std::vector<TokenId> path;
      std::vector<std::vector<TokenId>> prompts;
      for (const PromptSegment& root : work->NextPrompts()) GatherPrompts(root, path, prompts);
      for (const std::vector<TokenId>& prompt : prompts) {
        shown += fmt::format("--- {}: {} tokens\n{}\n", place, prompt.size(),
                             text.Decode(prompt, /*skip_special=*/false));
      }
      for (const RowProblem& problem : work->Problems()) {
        shown += fmt::format("--- {}: error: {}\n", place, problem.message);
      }
    } catch (const std::exception& e) {
      shown += fmt::format("--- {}: error: {}\n", place, e.what());
    }
  }
  return shown;
}

}  // namespace banyan
