#include "rag/rag_options.h"

#include <fmt/format.h>

#include "program/option_table.h"
#include "shell/help_format.h"

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
  SetFirstOptions(command, {"--model", "--index", "--top", "--output", "--json", "--trace",
                            "--copy", "--verify", "--limit", "--resume", "--overwrite", "--help"});
}

}  // namespace banyan::app
