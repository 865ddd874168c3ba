// Options, help and checks of `rag`; opens the index and loads the models of retrieval.
#include "rag/rag_options.h"

#include <fmt/format.h>
#include <unistd.h>
#include <filesystem>

#include "banyan/error.h"
#include "model/reader_offer.h"
#include "program/fresh_file.h"
#include "program/kv.h"
#include "program/options.h"
#include "program/rag.h"
#include "shell/help.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

constexpr const char* kRagHelp = R"(
Reads every document separately and combines them into one answer: each next token is the one that a
relevant document favours and a stream without documents does not. The answer cites the source document of
every token.

Examples
  Your own files, offline, with the model that ships with the program:
    $ banyan rag index notes/
    $ banyan rag "When does the ferry leave?"
  Many questions, each with its documents or over an index:
    $ cat in.jsonl
    {"id":"q1","question":"Which code opens the gate?","documents":[{"id":"d1","text":"…"},{"id":"d2","text":"…"}]}
    $ banyan rag -m model.gguf in.jsonl -o out.jsonl --trace trace.html
    $ banyan rag index idx notes/ && banyan rag questions.jsonl --index idx -o out.jsonl
  Search by meaning: vectors of an encoder, stored in the index:
    $ banyan model get all-minilm-l6-v2
    $ banyan rag index notes/ --encoder all-minilm-l6-v2
    $ banyan rag "When does the ferry leave?"
  Compared with all documents in one prompt:
    $ banyan rag in.jsonl --method concat -o concat.jsonl
    $ banyan eval rag in.jsonl out.jsonl concat.jsonl

Input
  JSONL: {"id","question","documents":[{"id","text","title"?,"score"?}]?}. A score is the document's
  relevance in (0, 1]; without scores --relevance gives it. Other fields are copied.
  With --experts examples: {"id","question","examples":[{"question","answer"}]?}.
Output
  {"id","question","answer","finish_reason","tokens","prompt_tokens","method","citations","trace",
  "first_token_seconds","seconds",…}; a question that fails becomes {"id","error":{…}}.
Exit code
  0: every row answered; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

// Models, indexes and files, which the library takes opened.
void AddOpened(CLI::App& command, RagCommand& options) {
  const char* group = "Documents";
  command
      .add_option("--index", options.index,
                  fmt::format("Folder of an index, for questions without documents (a question on "
                              "the command line: {})",
                              kDefaultIndex))
      ->group(group);
  command
      .add_option("--encoder", options.encoder,
                  "Model of dense, sparse and multi-vector signals (default: the one that made the "
                  "index)")
      ->type_name("MODEL")
      ->group(group);
  command
      .add_option("--reranker", options.reranker,
                  "Cross-encoder (XLM-R, RoBERTa) whose judgement is fused with --relevance")
      ->type_name("MODEL")
      ->group(group);
  command
      .add_option("--examples", options.examples,
                  "JSONL of {\"question\",\"answer\"} for records without examples of their own")
      ->type_name("FILE")
      ->group("Answers");
}

void AddOutput(CLI::App& command, RagCommand& options) {
  const char* group = "Output";
  options.input.AddOutputTo(command, options.job);
  command.add_flag("--json", options.json, "A question's whole row, not its answer alone")
      ->group(group);
  command
      .add_option("--trace", options.trace_page,
                  "Write an HTML page that shows the source document of every token")
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

}  // namespace

void RagCommand::AddTo(CLI::App& command) {
  command.footer(kRagHelp);
  command.add_option("input", job.inputs,
                     "A question, files, quoted patterns such as 'in/*.jsonl', or - for standard "
                     "input");
  input.AddTo(command, job, "question=query");
  input.AddRecordsTo(command, job);
  AddOpened(command, *this);
  table.AddTo(command, Bind(rag));
  AddOutput(command, *this);
  kv.AddTo(command);
  run.model_by_default = true;
  run.AddTo(command, "mixed", "Machine");
  SetFirstOptions(
      command,
      {{"Documents", {"--index", "--top", "--field", "--id"}},
       {"Answers", {"--copy", "--verify", "--too-long"}},
       {"Output", {"--output", "--output-format", "--json", "--trace", "--quiet", "--verbose"}},
       {"Jobs", {"--ordered", "--resume", "--overwrite"}},
       {"Model", {"--model", "--threads"}},
       {"Help", {"--help", "--help-all"}}});
}

// Of an index whose KV is kept without being asked. All of it fits there: half a gigabyte of a
// model of 1.5 billion parameters.
constexpr std::int64_t kMostKeptPassages = 64;

// What the command line of `rag` says as text → options of the library, with the index opened and
// the models of retrieval loaded.

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
  ChooseReader(run, ReaderTask::kRag, /*may_ask=*/false);
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
  CheckRag(rag);
  OpenRetrieval();
  kv.Resolve(run.engine);
  if (IsQuestion() && kv.directory.empty() && rag.index && rag.index->size() <= kMostKeptPassages) {
    UseKeptKv(run.engine, [this](const std::string& text) {
      if (!quiet && ::isatty(STDERR_FILENO) == 1) SayLine(text);
    });
  }
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
