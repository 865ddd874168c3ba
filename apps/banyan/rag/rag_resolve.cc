// What the command line of `rag` says as text → options of the library, with the index opened and
// the models of retrieval loaded.
#include <fmt/format.h>

#include <filesystem>

#include "banyan/error.h"
#include "model/reader_offer.h"
#include "program/fresh_file.h"
#include "program/rag_models.h"
#include "rag/rag_options.h"

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
  table.ReadFiles([this](const std::string& option, const std::string& path) {
    job.other_files.emplace_back(option, path);
  });
  input.Resolve({"id", "question", "documents"}, job);
  if (!trace_page.empty()) {
    const bool drawable = IsQuestion() || job.output.ends_with(".jsonl");
    if (!rag.trace || !drawable) {
      throw Error(ErrorKind::kUsage, "--trace: expected traces in rows, and -o FILE.jsonl");
    }
    job.side_outputs.emplace_back("--trace", trace_page);
    if (IsQuestion()) GuardOutput(trace_page, "--trace", job.overwrite);
  }
  const bool of_examples = rag.experts == ExpertsAre::kExamples;
  if (!of_examples && !examples.empty()) {
    throw Error(ErrorKind::kUsage, "--examples: expected with --experts examples");
  }
  if (!examples.empty()) rag.examples = ReadExamples(examples);
  if (IsQuestion() && index.empty() && !of_examples) index = kDefaultIndex;
  if (!IsQuestion()) CheckJob(job);
  OpenRetrieval();
  kv.Resolve(run.engine);
}

void RagCommand::OpenRetrieval() {
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
