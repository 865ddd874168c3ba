// What the command line of `rag` says as text → options of the library, with the index opened and
// the models of retrieval loaded.
#include <fmt/format.h>

#include <filesystem>

#include "banyan/error.h"
#include "banyan/rag_models.h"
#include "option_text.h"
#include "rag_options.h"
#include "reader_offer.h"

namespace banyan::app {
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
  ChooseDefaultReader(run, ReaderTask::kRag, /*may_ask=*/false);
  run.Resolve();
  rag.method = ParseRagMethod(method);
  rag.relevance = ParseRelevanceFrom(relevance);
  rag.panel.rule = ParseFusionRule(rule);
  rag.panel.scores = ParsePanelScores(scores);
  rag.panel.abstention_scope = ParseAbstentionScope(abstention_scope);
  ParseBeta(beta, "--beta", rag.panel);
  rag.instruction = TextOrFile(instruction, "--instruction");
  rag.map_instruction = TextOrFile(map_instruction, "--map-instruction");
  rag.chat = NamedValue(chat, "--chat", ChatNames());
  rag.too_long = NamedValue(too_long, "--too-long", TooLongNamesWithoutSplit());
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
  rag.experts = NamedValue(experts, "--experts", ExpertsNames());
  const bool of_examples = rag.experts == ExpertsAre::kExamples;
  if (!of_examples && !examples.empty()) {
    throw Error(ErrorKind::kUsage, "--examples: expected with --experts examples");
  }
  if (!examples.empty()) rag.examples = ReadExamples(examples);
  if (IsQuestion() && index.empty() && !of_examples) index = kDefaultIndex;
  OpenRetrieval();
  kv.Resolve(run.engine);
}

void RagCommand::OpenRetrieval() {
  if (candidates != "auto") {
    rag.candidates = NamedValue(candidates, "--candidates", CandidateNames());
  }
  if (!index.empty()) rag.index = DocumentIndex::Open(index);
  if (!encoder.empty()) {
    rag.encoder = LoadRetrievalModel(encoder, run, quiet);
  } else if (const std::string name = WantedEncoder(rag); !name.empty()) {
    try {
      rag.encoder = LoadRetrievalModel(name, run, quiet);
    } catch (const Error& e) {
      throw Error(e.kind(),
                  fmt::format("{}: its encoder '{}' cannot be loaded ({}); give it with --encoder, "
                              "or ask with --candidates bm25",
                              index, name, e.what()));
    }
  }
  if (!reranker.empty()) rag.reranker = LoadRetrievalModel(reranker, run, quiet);
}

NamedEncoder LoadRetrievalModel(const std::string& name, const RunOptions& run, bool quiet) {
  RunOptions beside = run;
  beside.load = RetrievalLoadOptions(name, run.load);
  return NameEncoder(beside.LoadEncoder(quiet), name);
}

}  // namespace banyan::app
