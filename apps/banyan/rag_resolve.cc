// What the command line of `rag` says as text → options of the library, with the index opened and
// the models of retrieval loaded.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "banyan/error.h"
#include "option_text.h"
#include "rag_options.h"

namespace banyan::app {
namespace {

void ParseBeta(const std::string& text, PanelOptions& panel) {
  if (text == "expert" || text == "shared") {
    panel.beta_rule = text == "shared" ? BetaRule::kShared : BetaRule::kExpert;
    return;
  }
  char* end = nullptr;
  panel.beta_rule = BetaRule::kFixed;
  panel.beta = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(panel.beta >= 0.0 && panel.beta < 1e6)) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("--beta: expected expert, shared or a number from 0, found '{}'", text));
  }
}

// Questions are short, and a device's memory is the decoder's, for KV.
RunOptions BesideDecoder(RunOptions run) {
  if (run.load.device == "cuda") run.load.device = "cpu";
  return run;
}

}  // namespace

bool RagCommand::IsQuestion() const {
  if (job.inputs.size() != 1) return false;
  const std::string& input = job.inputs[0];
  return input != "-" && !std::filesystem::exists(input) &&
         input.find_first_of(" ?") != std::string::npos && input.find('*') == std::string::npos;
}

void RagCommand::Resolve() {
  if (job.inputs.empty()) {
    throw Error(ErrorKind::kUsage, "rag: expected a question, or files with questions");
  }
  run.Resolve();
  rag.method = ParseRagMethod(method);
  rag.relevance = ParseRelevanceFrom(relevance);
  rag.panel.rule = ParseFusionRule(rule);
  ParseBeta(beta, rag.panel);
  rag.instruction = TextOrFile(instruction, "--instruction");
  rag.map_instruction = TextOrFile(map_instruction, "--map-instruction");
  rag.chat = OneOfNames<ChatUse>(
      chat, "--chat", {{"auto", ChatUse::kAuto}, {"on", ChatUse::kOn}, {"off", ChatUse::kOff}});
  rag.too_long = OneOfNames<TooLong>(too_long, "--too-long",
                                     {{"fail", TooLong::kFail}, {"truncate", TooLong::kTruncate}});
  rag.trace = !no_trace;
  ParseShardOption(shard, job);
  ParseFieldOptions(fields, {"id", "question", "documents"}, job);
  if (!trace_page.empty()) {
    const bool drawable = IsQuestion() || job.output.ends_with(".jsonl");
    if (no_trace || !drawable) {
      throw Error(ErrorKind::kUsage, "--trace: expected traces in rows, and -o FILE.jsonl");
    }
    job.other_files.emplace_back("--trace", trace_page);
  }
  rag.experts = OneOfNames<ExpertsAre>(
      experts, "--experts",
      {{"documents", ExpertsAre::kDocuments}, {"examples", ExpertsAre::kExamples}});
  const bool of_examples = rag.experts == ExpertsAre::kExamples;
  if (!of_examples && !examples.empty()) {
    throw Error(ErrorKind::kUsage, "--examples: expected with --experts examples");
  }
  if (!examples.empty()) rag.examples = ReadExamples(examples);
  if (IsQuestion() && index.empty() && !of_examples) index = kDefaultIndex;
  OpenRetrieval();
  kv.Resolve(run.engine);
}

// Whether an encoder is needed that the user did not name.
bool RagCommand::WantsVectors() const {
  const bool by_name = rag.relevance == RelevanceFrom::kDense ||
                       rag.relevance == RelevanceFrom::kSparse ||
                       rag.relevance == RelevanceFrom::kMultiVector;
  return rag.candidates.value_or(Signal::kDense) != Signal::kBm25 || by_name;
}

void RagCommand::OpenRetrieval() {
  if (candidates != "auto") {
    rag.candidates = OneOfNames<Signal>(
        candidates, "--candidates",
        {{"bm25", Signal::kBm25}, {"dense", Signal::kDense}, {"sparse", Signal::kSparse}});
  }
  if (!index.empty()) rag.index = DocumentIndex::Open(index);
  if (!encoder.empty()) {
    rag.encoder = LoadRetrievalModel(encoder, BesideDecoder(run), quiet);
  } else if (rag.index && rag.index->encoder() != nullptr && WantsVectors()) {
    const std::string& name = rag.index->encoder()->name;
    try {
      rag.encoder = LoadRetrievalModel(name, BesideDecoder(run), quiet);
    } catch (const Error& e) {
      throw Error(e.kind(),
                  fmt::format("{}: its encoder '{}' cannot be loaded ({}); give it with --encoder, "
                              "or ask with --candidates bm25",
                              index, name, e.what()));
    }
  }
  if (!reranker.empty()) rag.reranker = LoadRetrievalModel(reranker, BesideDecoder(run), quiet);
}

NamedEncoder LoadRetrievalModel(const std::string& name, const RunOptions& run, bool quiet) {
  RunOptions beside = run;
  beside.load.model = name;
  beside.load.precision = "f32";
  beside.load.kv_type.clear();
  beside.load.adapter.clear();
  beside.load.adapters.clear();
  beside.load.yarn_factor = 0.0;
  beside.load.fast = false;
  NamedEncoder loaded;
  loaded.encoder = beside.LoadEncoder(quiet);
  // Where it is, for whoever asks from another folder.
  loaded.name = std::filesystem::exists(name)
                    ? std::filesystem::absolute(name).lexically_normal().string()
                    : name;
  loaded.fingerprint = EncoderFingerprint(name);
  return loaded;
}

}  // namespace banyan::app
