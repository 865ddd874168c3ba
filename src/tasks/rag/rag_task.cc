// The work on a record: notes, answer, and answers without cited documents. Then the checks of
// options, what all records share, and `banyan rag` as library calls.
#include "tasks/rag/rag_task.h"

#include <algorithm>
#include <cmath>
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
#include "tasks/rag/rag_evidence.h"
#include "tasks/rag/rag_prompt.h"
#include "text/unicode.h"

namespace banyan {

namespace {

constexpr size_t kMostAlone = 8;  // documents that are asked by themselves

}  // namespace

RagWork::RagWork(const RagSettings& settings, RagRecord record, RowPlace place)
    : settings_(settings),
      record_(std::move(record)),
      place_(std::move(place)),
      requests_(settings_, record_),
      rows_(settings_, record_) {}

std::vector<PromptSegment> RagWork::NextPrompts() {
  if (problem_) return {};
  switch (stage_) {
    case Stage::kBegin:
      return AskFirst();
    case Stage::kNotes:
      stage_ = Stage::kAnswer;
      return AskOverNotes();
    case Stage::kAnswer:
      stage_ = Stage::kAlone;
      if (std::vector<PromptSegment> prompts = AskAlone(); !prompts.empty()) return prompts;
      [[fallthrough]];
    case Stage::kAlone:
      PreferSurest();
      if (!settings_.options.verify) break;
      stage_ = Stage::kVerify;
      return AskWithoutCited();
    case Stage::kVerify:
    case Stage::kDone:
      break;
  }
  stage_ = Stage::kDone;
  return {};
}

std::vector<PromptSegment> RagWork::AskFirst() {
  const RagMethod method = settings_.options.method;
  stage_ = method == RagMethod::kMapReduce ? Stage::kNotes : Stage::kAnswer;
  std::vector<PromptSegment> prompts;
  switch (method) {
    case RagMethod::kExperts:
      prompts.push_back(requests_.Experts(kAnswerTag));
      break;
    case RagMethod::kConcat: {
      const std::vector<size_t> all = record_.AllDocuments();
      const std::string text =
          record_.Joined(all, [&](size_t i) { return record_.documents[i].Shown(); });
      prompts.push_back(requests_.Over(text, kAnswerTag, all));
      break;
    }
    case RagMethod::kTop1: {
      const size_t best = record_.MostRelevant();
      prompts.push_back(requests_.Over(record_.documents[best].Shown(), kAnswerTag, {best}));
      break;
    }
    case RagMethod::kMapReduce:
      answers_.notes.resize(record_.documents.size());
      prompts.push_back(requests_.Notes());
      break;
    case RagMethod::kKvConcat:
      Take(requests_.AnswerKvConcat(kAnswerTag));
      break;
  }
  return prompts;
}

// The notes that are not null, as one text.
std::vector<PromptSegment> RagWork::AskOverNotes() {
  std::vector<std::string> notes;
  for (const Answer& note : answers_.notes) notes.push_back(rows_.TextOf(note));
  std::vector<size_t> telling = record_.AllDocuments();
  std::erase_if(telling, [&](size_t i) { return SaysNothing(notes[i]); });
  const std::string text = record_.Joined(telling, [&](size_t i) { return notes[i]; });
  std::vector<PromptSegment> prompts;
  if (!text.empty()) prompts.push_back(requests_.Over(text, kAnswerTag, record_.AllDocuments()));
  return prompts;
}

// What the documents that may have an answer say by themselves, and how sure the cited one is of
// this one. Their KV is cached, and documents that abstained are left out: a few rows and steps.
std::vector<PromptSegment> RagWork::AskAlone() {
  const Answer& answer = answers_.answer;
  const RagOptions& options = settings_.options;
  if (!settings_.copies || options.method != RagMethod::kExperts || answer.tokens.empty())
    return {};
  std::vector<size_t> documents;
  for (const size_t i : record_.ByRelevance(record_.documents.size())) {
    const bool known = i < answer.abstentions.size();
    if (known && answer.abstentions[i] >= options.panel.abstention) continue;
    if (documents.size() < kMostAlone) documents.push_back(i);
  }
  for (const size_t i : documents) answers_.alone.push_back({i, {}});
  const bool says = !SaysNothing(rows_.TextOf(answer));
  if (documents.empty() && !says) return {};
  std::vector<PromptSegment> prompts;
  prompts.push_back(requests_.Alone(documents,
                                    says ? rows_.SourceOf(answer, rows_.TextOf(answer)) : 0,
                                    says ? answer.tokens : std::vector<TokenId>()));
  return prompts;
}

// Experts together may say what none of them is sure of: then the answer is that of the document
// that is. The paper's rule (--switch token) stays as it is.
void RagWork::PreferSurest() {
  const std::string said = rows_.TextOf(answers_.answer);
  const bool words = settings_.options.panel.switching == SwitchRule::kWord;
  if (!words || answers_.alone.empty() || SaysNothing(said)) return;
  const RagEvidence evidence(settings_, record_,
                             [this](const Answer& one) { return rows_.TextOf(one); });
  const std::optional<size_t> surer = evidence.ClearlySurer(answers_, said);
  if (!surer) return;
  const auto alone = std::ranges::find(answers_.alone, *surer, &RagAnswers::Alone::document);
  Answer chosen = alone->answer;
  Answer& joint = answers_.joint.emplace(std::move(answers_.answer));
  chosen.experts.assign(chosen.tokens.size(), static_cast<std::int32_t>(*surer));
  chosen.betas = joint.betas;
  chosen.abstentions = joint.abstentions;
  chosen.prompt_tokens = joint.prompt_tokens;
  chosen.cached_tokens = joint.cached_tokens;
  chosen.first_token_seconds = joint.first_token_seconds;
  chosen.seconds = joint.seconds;
  answers_.answer = std::move(chosen);
}

// A request for every document that the answer cites, without that document. The KV of
// all others is still cached, so only the answers are computed.
std::vector<PromptSegment> RagWork::AskWithoutCited() {
  std::vector<PromptSegment> prompts;
  const nlohmann::ordered_json citations = rows_.Citations(answers_.answer);
  for (size_t i = 0; i < record_.documents.size(); ++i) {
    if (!IsCited(citations, record_.documents[i])) continue;
    answers_.left_out.push_back({i, {}});
    prompts.push_back(requests_.Experts(answers_.left_out.size(), i));
  }
  return prompts;
}

void RagWork::Take(Answer answer) {
  if (answer.finish == FinishReason::kError && !problem_) {
    problem_ = {ErrorKind::kLimit, answer.error};
  }
  if (stage_ == Stage::kNotes) {
    const auto document = static_cast<size_t>(answer.tag) - 1;
    answers_.notes[document] = std::move(answer);
  } else if (stage_ == Stage::kAlone) {
    const auto place = static_cast<size_t>(answer.tag) - 1;
    if (place == answers_.alone.size()) {
      answers_.scored = std::move(answer);
    } else {
      answers_.alone.at(place).answer = std::move(answer);
    }
  } else if (stage_ == Stage::kVerify) {
    answers_.left_out.at(static_cast<size_t>(answer.tag) - 1).answer = std::move(answer);
  } else {
    answers_.answer = std::move(answer);
  }
}

void RagWork::Refuse(const Error& error) {
  if (!problem_) problem_ = {error.kind(), error.what()};
}

OutputRow RagWork::Row(size_t) {
  if (!problem_) {
    try {
      const bool map_reduce = settings_.options.method == RagMethod::kMapReduce;
      BANYAN_CHECK(stage_ == Stage::kDone || !answers_.answer.tokens.empty() || map_reduce);
      return rows_.Row(answers_, requests_.truncated());
    } catch (const std::exception& e) {
      problem_ = ProblemOf(e);
    }
  }
  return RagErrorRow(record_.id, record_.question, *problem_, place_, record_.carried);
}

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

RagTask::RagTask(std::shared_ptr<Model> model, const RagOptions& options) {
  CheckOptions(options);
  settings_.options = options;
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
