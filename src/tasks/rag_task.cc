#include "tasks/rag_task.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json_row.h"
#include "tasks/ask_record.h"
#include "tasks/rag_null.h"
#include "text/utf8.h"

namespace banyan {
namespace {

template <typename Value>
Value ParseNamed(const std::string& name, std::initializer_list<Value> values,
                 const char* (*name_of)(Value), const char* what) {
  std::string known;
  for (const Value value : values) {
    if (name == name_of(value)) return value;
    known += (known.empty() ? "" : ", ") + std::string(name_of(value));
  }
  Throw(ErrorKind::kUsage, "{}: expected one of {}, found '{}'", what, known, name);
}

void CheckOptions(const RagOptions& options) {
  const PanelOptions& panel = options.panel;
  const auto check = [](bool good, const char* name, double found, const char* expected) {
    if (!good) Throw(ErrorKind::kUsage, "{}: expected {}, found {}", name, expected, found);
  };
  check(options.max_new >= 1, "--max-new", options.max_new, "1 or more");
  check(options.top >= 1, "--top", options.top, "1 or more");
  const double gamma = options.gamma.value_or(0.0);
  check(gamma >= 0.0 && std::isfinite(gamma), "--gamma", gamma, "0 or more");
  check(panel.plausibility >= 0.0 && panel.plausibility <= 1.0, "--plausibility",
        panel.plausibility, "0 to 1");
  check(panel.abstention >= 0.0 && panel.abstention <= 1.0, "--abstention", panel.abstention,
        "0 to 1");
  check(panel.beta >= 0.0 && std::isfinite(panel.beta), "--beta", panel.beta, "0 or more");
  check(options.min_relevance >= 0.0 && options.min_relevance <= 1.0, "--min-relevance",
        options.min_relevance, "0 to 1");
  for (const auto& [name, found] : {std::pair("--ape-temperature", options.ape_temperature),
                                    {"--ape-scale", options.ape_scale}}) {
    check(found >= 0.1 && found <= 2.0, name, found, "0.1 to 2");
    if (found != 1.0 && options.method != RagMethod::kKvConcat) {
      Throw(ErrorKind::kUsage, "{} goes with --method kv-concat, found {}", name,
            RagMethodName(options.method));
    }
  }
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>("--instruction", options.instruction),
        {"--map-instruction", options.map_instruction}}) {
    if (!IsValidUtf8(text)) Throw(ErrorKind::kUsage, "{}: not valid UTF-8", name);
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty() || !IsValidUtf8(stop)) {
      Throw(ErrorKind::kUsage, "--stop: expected a text that is not empty, in UTF-8");
    }
  }
  check(options.candidate_count >= 0, "--candidate-count", options.candidate_count, "0 or more");
  check(options.examples_per_expert >= 1, "--examples-per-expert", options.examples_per_expert,
        "1 or more");
  if (options.experts == ExpertsAre::kExamples && options.method != RagMethod::kExperts) {
    Throw(ErrorKind::kUsage, "--experts examples goes with --method experts, found {}",
          RagMethodName(options.method));
  }
  if (options.copy && options.method == RagMethod::kKvConcat) {
    Throw(ErrorKind::kUsage, "--copy: kv-concat has no constraints");
  }
  if (options.copy && options.experts == ExpertsAre::kExamples) {
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
  return ParseNamed(name,
                    {RagMethod::kExperts, RagMethod::kConcat, RagMethod::kTop1,
                     RagMethod::kMapReduce, RagMethod::kKvConcat},
                    RagMethodName, "--method");
}

const char* RagMethodName(RagMethod method) {
  constexpr const char* kNames[] = {"experts", "concat", "top1", "map-reduce", "kv-concat"};
  return kNames[static_cast<int>(method)];
}

RelevanceFrom ParseRelevanceFrom(const std::string& name) {
  return ParseNamed(name,
                    {RelevanceFrom::kAuto, RelevanceFrom::kGiven, RelevanceFrom::kBm25,
                     RelevanceFrom::kEqual, RelevanceFrom::kDense, RelevanceFrom::kSparse,
                     RelevanceFrom::kMultiVector, RelevanceFrom::kRerank},
                    RelevanceFromName, "--relevance");
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
  if (options.copy) settings_.trie = MakeTokenTrie(*settings_.text);
  if (options.method == RagMethod::kKvConcat) {
    settings_.joined = std::make_unique<JoinedContext>(
        std::move(model), JoinedOptions{options.ape_temperature, options.ape_scale});
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
  Json parameters = {
      {"--method", RagMethodName(options.method)},
      {"--relevance", RelevanceFromName(options.relevance)},
      {"--min-relevance", options.min_relevance},
      {"--index", options.index ? options.index->fingerprint() : ""},
      {"--instruction", options.instruction},
      {"--chat", settings_.prompt->uses_chat() ? "on" : "off"},
      {"--max-new", options.max_new},
      {"--stop", options.stop},
      {"--too-long", options.too_long == TooLong::kFail ? "fail" : "truncate"},
      {"--no-trace", !options.trace},
      {"--copy", options.copy},
      {"--verify", options.verify},
  };
  if (options.index) {
    parameters["--top"] = options.top;
    parameters["--candidates"] = SignalName(CandidatesOf(options));
    parameters["--candidate-count"] = options.candidate_count;
  }
  parameters["--encoder"] = options.encoder.fingerprint;
  parameters["--reranker"] = options.reranker.fingerprint;
  if (options.experts == ExpertsAre::kExamples) {
    parameters["--experts"] = "examples";
    parameters["--examples-per-expert"] = options.examples_per_expert;
    Json& examples = parameters["--examples"] = Json::array();
    for (const auto& [question, answer] : options.examples) {
      examples.push_back({question, answer});
    }
  }
  if (options.method == RagMethod::kMapReduce) {
    parameters["--map-instruction"] = options.map_instruction;
  }
  if (options.method == RagMethod::kKvConcat) {
    parameters["--ape-temperature"] = options.ape_temperature;
    parameters["--ape-scale"] = options.ape_scale;
  }
  if (options.method != RagMethod::kExperts) return parameters;
  const PanelOptions& panel = options.panel;
  parameters["--rule"] = FusionRuleName(panel.rule);
  parameters["--gamma"] = panel.gamma;
  parameters["--scores"] = PanelScoresName(panel.scores);
  parameters["--plausibility"] = panel.plausibility;
  parameters["--abstention"] = panel.abstention;
  parameters["--abstention-scope"] = AbstentionScopeName(panel.abstention_scope);
  if (panel.beta_rule == BetaRule::kFixed) {
    parameters["--beta"] = panel.beta;
  } else {
    parameters["--beta"] = panel.beta_rule == BetaRule::kShared ? "shared" : "expert";
  }
  return parameters;
}

std::string RagTask::Identity(const InputRow& row) const { return DumpJson(IdOf(row.value)); }

std::unique_ptr<RecordWork> RagTask::Start(const InputRow& row) {
  return Ask(Read(row.value), {row.file, row.line});
}

RagRecord RagTask::Read(const Json& row) const {
  return ReadRagRecord(row, settings_.options, *settings_.retriever);
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
  // An id with a replacement character is not the id that stands in the file.
  if (id.is_string() && id.get_ref<const std::string&>().find("\uFFFD") != std::string::npos) {
    id = nullptr;
  }
  return RagErrorRow(id, problem, {row.file, row.line});
}

}  // namespace banyan
