// The checks of options, what all records share, and `banyan rag` as library calls.
#include "tasks/rag/rag_task.h"

#include <filesystem>
#include <utility>

#include "banyan/rag.h"
#include "base/error.h"
#include "base/json.h"
#include "program/options.h"
#include "program/rag.h"
#include "tasks/input/input.h"
#include "tasks/job/job.h"
#include "tasks/job/record_window.h"
#include "tasks/options/task_options.h"
#include "tasks/rag/rag_prompt.h"
#include "tasks/rag/rag_work.h"

namespace banyan {

namespace {

void CheckOptions(const RagOptions& options) {
  CheckValues(options);
  for (const auto& [name, found] : {std::pair("--ape-temperature", options.ape_temperature),
                                    {"--ape-scale", options.ape_scale}}) {
    if (found != 1.0 && options.method != RagMethod::kKvConcat) {
      Throw(ErrorKind::kUsage, "{} goes with --method kv-concat, found {}", name,
            RagMethodName(options.method));
    }
  }
  if (options.together == 1) {
    Throw(ErrorKind::kUsage, "--together: expected 0 or 2 to 64, found 1");
  }
  if (options.together > 0 &&
      (options.method != RagMethod::kExperts || options.experts == ExpertsAre::kExamples)) {
    Throw(ErrorKind::kUsage, "--together goes with --method experts over documents");
  }
  if (options.experts == ExpertsAre::kExamples && options.method != RagMethod::kExperts) {
    Throw(ErrorKind::kUsage, "--experts examples goes with --method experts, found {}",
          RagMethodName(options.method));
  }
  if (options.copy.value_or(false) && options.method == RagMethod::kKvConcat) {
    Throw(ErrorKind::kUsage, "--copy: kv-concat has no constraints");
  }
  if (options.copy.value_or(false) && options.experts == ExpertsAre::kExamples) {
    Throw(ErrorKind::kUsage, "--copy: answers are not copied from examples (--experts examples)");
  }
  if (options.verify && options.method != RagMethod::kExperts) {
    Throw(ErrorKind::kUsage, "--verify goes with --method experts, found {}",
          RagMethodName(options.method));
  }
  if (options.too_long == TooLong::kSplit) {
    Throw(ErrorKind::kUsage, "--too-long split: documents of rag are cut or refused");
  }
}

Signal CandidatesOf(const RagOptions& options) {
  const bool vectors = options.index && options.index->encoder() && options.encoder;
  return options.candidates.value_or(vectors ? Signal::kDense : Signal::kBm25);
}

std::optional<Signal> JudgingSignal(const RagOptions& options) {
  switch (options.relevance) {
    case RelevanceFrom::kRerank:
      return std::nullopt;
    case RelevanceFrom::kBm25:
      return Signal::kBm25;
    case RelevanceFrom::kDense:
      return Signal::kDense;
    case RelevanceFrom::kSparse:
      return Signal::kSparse;
    case RelevanceFrom::kMultiVector:
      return Signal::kMultiVector;
    default:
      if (options.index) return CandidatesOf(options);
      return options.encoder ? Signal::kDense : Signal::kBm25;
  }
}

// The paper's 2.5 is for raw logits, whose differences are larger.
double GammaOf(const RagOptions& options) {
  return options.gamma.value_or(options.panel.scores == PanelScores::kRaw ? 2.5 : 1.0);
}

RetrieverOptions RetrieverOptionsOf(const RagOptions& options) {
  RetrieverOptions retriever;
  retriever.index = options.index;
  retriever.encoder = options.encoder;
  if (options.relevance != RelevanceFrom::kEqual) retriever.reranker = options.reranker;
  retriever.candidates = CandidatesOf(options);
  retriever.candidate_count = options.candidate_count;
  retriever.top = options.top;
  retriever.relevance = JudgingSignal(options);
  return retriever;
}

}  // namespace

RagMethod ParseRagMethod(const std::string& name) {
  return NamedValue(name, "--method", RagMethodNames());
}

const char* RagMethodName(RagMethod method) {
  constexpr const char* kNames[] = {"experts", "concat", "top1", "map-reduce", "kv-concat"};
  return kNames[static_cast<int>(method)];
}

RelevanceFrom ParseRelevanceFrom(const std::string& name) {
  return NamedValue(name, "--relevance", RelevanceNames());
}

const char* RelevanceFromName(RelevanceFrom from) {
  constexpr const char* kNames[] = {"auto",  "given",  "bm25",         "equal",
                                    "dense", "sparse", "multi-vector", "rerank"};
  return kNames[static_cast<int>(from)];
}

RagTask::RagTask(std::shared_ptr<Model> model, const RagOptions& options, bool in_haste) {
  CheckOptions(options);
  settings_.options = options;
  settings_.in_haste = in_haste;
  settings_.retriever = std::make_unique<Retriever>(RetrieverOptionsOf(options));
  settings_.text = model->text();
  if (settings_.text == nullptr) {
    Throw(ErrorKind::kUnsupported, "rag: the model's files have no tokenizer");
  }
  settings_.model = model;
  const bool may_copy =
      options.method != RagMethod::kKvConcat && options.experts != ExpertsAre::kExamples;
  settings_.copies = options.copy.value_or(may_copy && model->card().copies);
  if (settings_.copies) settings_.trie = MakeTokenTrie(*settings_.text);
  if (options.method == RagMethod::kKvConcat) {
    settings_.kv_concat = std::make_unique<KvConcat>(
        std::move(model), KvConcatOptions{options.ape_temperature, options.ape_scale});
  }
  settings_.prompt = std::make_unique<RagPrompt>(settings_.text, options, options.instruction);
  PanelOptions& panel = settings_.options.panel;
  panel.gamma = GammaOf(options);
  panel.null_tokens = NullTokens(*settings_.text, settings_.prompt->answer_separator(),
                                 settings_.model->end_tokens());
  settings_.map_prompt =
      std::make_unique<RagPrompt>(settings_.text, options, options.map_instruction);
}

Json RagTask::Parameters() const {
  const RagOptions& options = settings_.options;
  Json parameters = IdentityOf(options);
  parameters["--chat"] = settings_.prompt->uses_chat() ? "on" : "off";
  parameters["--copy"] = settings_.copies;
  parameters["--index"] = options.index ? options.index->fingerprint() : "";
  parameters["--encoder"] = options.encoder.fingerprint;
  parameters["--reranker"] = options.reranker.fingerprint;
  if (options.index) parameters["--candidates"] = SignalName(CandidatesOf(options));
  if (options.experts == ExpertsAre::kExamples) {
    Json& examples = parameters["--examples"] = Json::array();
    for (const auto& [question, answer] : options.examples) {
      examples.push_back({question, answer});
    }
  }
  if (options.method == RagMethod::kExperts) {
    parameters["--gamma"] = options.panel.gamma;
    // Version 0.2.0 had a choice here; its jobs resume where it was the default.
    parameters["--abstention-scope"] = "first";
  }
  return parameters;
}

std::string RagTask::Identity(const InputRow& row) const { return DumpJson(IdOf(row.value)); }

std::unique_ptr<RecordWork> RagTask::Start(const InputRow& row) {
  return Ask(Read(row.value), {row.file, row.line});
}

RagRecord RagTask::Read(const Json& row) const {
  RagRecord record = ReadRagRecord(row, settings_.options, *settings_.retriever);
  if (settings_.copies) KeepWhatCanBeCopied(settings_, record);
  return record;
}

std::unique_ptr<RecordWork> RagTask::Ask(RagRecord record, RowPlace place) const {
  return std::make_unique<RagWork>(settings_, std::move(record), std::move(place));
}

TableColumns RagTask::Columns() const {
  return {{"id", "question", "answer", "finish_reason", "tokens"}, {"id", "question", "answer"}};
}

OutputRow RagTask::ErrorRow(const InputRow& row, const RowProblem& problem) const {
  Json id;
  const auto found = row.value.find("id");
  if (found != row.value.end() && (found->is_string() || IsNumber(*found))) id = *found;
  // An id with a replacement character is not the id of the file.
  if (id.is_string() && id.get_ref<const std::string&>().find("\uFFFD") != std::string::npos) {
    id = nullptr;
  }
  const auto question = row.value.find("question");
  return RagErrorRow(id, question == row.value.end() ? Json() : *question, problem,
                     {row.file, row.line}, row.value);
}

void CheckRag(const RagOptions& rag) { CheckOptions(rag); }

JobReceipt RunRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const RagOptions& rag, const JobOptions& job) {
  JobOptions questions = WithIdColumn(job);
  CheckJob(questions);
  RagTask task(model, rag);
  if (rag.index && job.notice) {
    const std::string changes = rag.index->Changes().Text();
    if (!changes.empty()) job.notice(changes);
  }
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
  RagTask task(model, rag, /*in_haste=*/true);
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
  options.device = answering.device.starts_with("cuda") ? "cpu" : answering.device;
  options.threads = answering.threads;
  options.precision = "f32";
  options.progress = answering.progress;
  return options;
}

NamedEncoder NameEncoder(std::shared_ptr<Encoder> encoder, const std::string& name) {
  NamedEncoder named;
  named.fingerprint = encoder->fingerprint();
  named.encoder = std::move(encoder);
  named.name = std::filesystem::exists(name)
                   ? std::filesystem::absolute(name).lexically_normal().string()
                   : name;
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
