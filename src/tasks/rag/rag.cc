// `banyan rag` as library calls: the task in the runner, one question alone, and the models that
// retrieve.
#include "banyan/rag.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "program/rag.h"
#include "tasks/job/job.h"
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

LoadOptions RetrievalLoadOptions(const std::string& name, const LoadOptions& answering) {
  LoadOptions options;
  options.model = name;
  options.device = answering.device == "cuda" ? "cpu" : answering.device;
  options.threads = answering.threads;
  options.precision = "f32";
  options.progress = answering.progress;
  return options;
}

NamedEncoder NameEncoder(std::shared_ptr<Encoder> encoder, const std::string& name) {
  NamedEncoder named;
  named.encoder = std::move(encoder);
  named.name = std::filesystem::exists(name)
                   ? std::filesystem::absolute(name).lexically_normal().string()
                   : name;
  named.fingerprint = EncoderFingerprint(name);
  return named;
}

std::string WantedEncoder(const RagOptions& rag) {
  if (rag.encoder || !rag.index || rag.index->encoder() == nullptr) return "";
  const bool by_name = rag.relevance == RelevanceFrom::kDense ||
                       rag.relevance == RelevanceFrom::kSparse ||
                       rag.relevance == RelevanceFrom::kMultiVector;
  if (rag.candidates.value_or(Signal::kDense) == Signal::kBm25 && !by_name) return "";
  return rag.index->encoder()->name;
}

}  // namespace banyan
