// `banyan rag` as a library call: the task in the runner, or one question alone.
#include "banyan/rag.h"

#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/job.h"
#include "tasks/rag_task.h"

namespace banyan {

JobReceipt RunRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const RagOptions& rag, const JobOptions& job) {
  CheckJob(job);
  RagTask task(model, rag);
  return JobRunner(model, engine_options, task, job).Run();
}

std::string AnswerRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const RagOptions& rag, const std::string& question) {
  RagTask task(model, rag);
  InputRow row;
  row.file = "the question";
  row.value = {{"id", "question"}, {"question", question}};
  const std::unique_ptr<RecordWork> work = task.Start(row);
  Engine engine(model, engine_options);
  while (true) {
    std::vector<PromptSegment> prompts = work->NextPrompts();
    if (prompts.empty()) break;
    for (PromptSegment& prompt : prompts) engine.Submit(std::move(prompt));
    while (engine.Step()) {
    }
    for (Answer& answer : engine.TakeFinished()) work->Take(std::move(answer));
  }
  const std::vector<OutputRow> rows = work->Rows();
  BANYAN_CHECK(rows.size() == 1);
  if (rows[0].error) {
    Throw(ErrorKind::kLimit, "{}", rows[0].fields["error"]["message"].get<std::string>());
  }
  return DumpJson(rows[0].fields);
}

}  // namespace banyan
