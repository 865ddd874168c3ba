// `banyan rag` as a library call: the task in the runner, or one question alone.
#include "banyan/rag.h"

#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/job/job.h"
#include "tasks/job/job_estimate.h"
#include "tasks/job/record_window.h"
#include "tasks/rag/rag_task.h"

namespace banyan {

JobReceipt RunRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const RagOptions& rag, const JobOptions& job) {
  CheckJob(job);
  RagTask task(model, rag);
  JobOptions questions = job;
  questions.other_document_field.clear();  // a field 'text' of a question is carried
  return JobRunner(model, engine_options, task, questions).Run();
}

JobEstimate EstimateRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const RagOptions& rag, const JobOptions& job) {
  CheckJob(job);
  RagTask task(model, rag);
  return EstimateJob(model, engine_options, task, job);
}

std::string AnswerRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const RagOptions& rag, const std::string& question) {
  RagTask task(model, rag);
  InputRow row;
  row.file = "the question";
  row.value = {{"id", "question"}, {"question", question}};
  Engine engine(model, engine_options);
  OneRowEach made(1);
  RecordWindow window([&](PromptSegment& prompt) { return engine.TrySubmit(prompt); }, made);
  window.Add(0, task.Start(row));
  window.RunToEnd(engine);
  const OutputRow& answer = made.rows[0];
  if (answer.error) Throw(ErrorKind::kLimit, "{}", answer.error_message());
  return DumpJson(answer.fields);
}

}  // namespace banyan
