// What the model reads, for people who want to see it.
#include <fmt/format.h>

#include <vector>

#include "banyan/ask.h"
#include "base/json_row.h"
#include "tasks/ask/ask_task.h"
#include "tasks/job/job.h"

namespace banyan {
namespace {

// The prompts of a tree, each once, in order.
void Gather(const PromptSegment& segment, std::vector<TokenId>& path,
            std::vector<std::vector<TokenId>>& prompts) {
  path.insert(path.end(), segment.tokens.begin(), segment.tokens.end());
  if (!segment.answers.empty()) prompts.push_back(path);
  for (const PromptSegment& below : segment.below) Gather(below, path, prompts);
  path.resize(path.size() - segment.tokens.size());
}

}  // namespace

std::string ShowPrompts(std::shared_ptr<Model> model, const AskOptions& ask,
                        const JobOptions& job) {
  CheckJob(job);
  const std::shared_ptr<const Text> text = model->text();
  AskTask task(model, ask);
  InputReader input(InputOf(job));
  std::string shown;
  InputRow row;
  for (std::int64_t read = 0; read < (job.limit < 0 ? 1 : job.limit); ++read) {
    if (!input.Next(row)) break;
    const std::string place =
        row.line > 0 ? fmt::format("{}, line {}", row.file, row.line) : row.file;
    try {
      if (row.problem) throw Error(row.problem->kind, row.problem->message);
      const std::unique_ptr<RecordWork> work = task.Start(row);
      std::vector<TokenId> path;
      std::vector<std::vector<TokenId>> prompts;
      for (const PromptSegment& root : work->NextPrompts()) Gather(root, path, prompts);
      for (const std::vector<TokenId>& prompt : prompts) {
        shown += fmt::format("--- {}: {} tokens\n{}\n", place, prompt.size(),
                             text->Decode(prompt, /*skip_special=*/false));
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
