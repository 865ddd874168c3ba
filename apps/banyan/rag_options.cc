#include "rag_options.h"

#include <fmt/format.h>

namespace banyan::app {
namespace {

constexpr const char* kRagHelp = R"(
Every document is read by itself, and all write one answer together: each next token is the one that a
relevant document is sure of, where a stream without any document is not. The answer says which document
every token is owed to.

Examples
  Your own files, offline, with the model that ships with the program:
    $ banyan rag index notes/
    $ banyan rag "When does the ferry leave?"
  Many questions, each with its documents or over an index:
    $ cat in.jsonl
    {"id":"q1","question":"Which code opens the gate?","documents":[{"id":"d1","text":"…"},{"id":"d2","text":"…"}]}
    $ banyan rag -m model.gguf in.jsonl -o out.jsonl --trace trace.html
    $ banyan rag index idx notes/ && banyan rag questions.jsonl --index idx -o out.jsonl
  Found by meaning and not by words alone: vectors of an encoder, kept in the index:
    $ banyan model get all-minilm-l6-v2
    $ banyan rag index notes/ --encoder all-minilm-l6-v2
    $ banyan rag "When does the ferry leave?"
  Compared with all documents in one prompt:
    $ banyan rag in.jsonl --method concat -o concat.jsonl
    $ banyan eval rag in.jsonl out.jsonl concat.jsonl

Input
  JSONL: {"id","question","documents":[{"id","text","title"?,"score"?}]?}. A score is the document's
  relevance in (0, 1]; without scores --relevance gives it. Other fields are carried through.
  With --experts examples: {"id","question","examples":[{"question","answer"}]?}.
Output
  {"id","question","answer","finish_reason","tokens","prompt_tokens","method","citations","trace",
  "first_token_seconds","seconds",…}; what cannot be answered becomes {"id","error":{…}}.
Exit code
  0: every row answered; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

void AddDocuments(CLI::App& command, RagCommand& options) {
  const char* group = "Documents";
  RagOptions& rag = options.rag;
  command
      .add_option("--index", options.index,
                  fmt::format("Folder of an index, for questions without documents (a question on "
                              "the command line: {})",
                              kDefaultIndex))
      ->group(group);
  command.add_option("--top", rag.top, "Passages of the index for a question")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--candidates", options.candidates,
                  "By what passages of the index are found; auto: dense where the index has "
                  "vectors, else bm25")
      ->type_name("auto|bm25|dense|sparse")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--candidate-count", rag.candidate_count,
                  "Passages that are found before the --top most relevant are read; 0: four times "
                  "--top where something else than --candidates judges them")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_option("--relevance", options.relevance,
                  "Who judges documents: their scores (given), a signal, the reranker alone, "
                  "nobody (equal); auto: scores where all have one, else the signal of "
                  "--candidates, else dense with an --encoder, else bm25")
      ->type_name("auto|given|bm25|dense|sparse|multi-vector|rerank|equal")
      ->capture_default_str()
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
      .add_option("--min-relevance", rag.min_relevance,
                  "Documents below it are not read; the row names them")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--too-long", options.too_long,
                  "A document beyond the model's window: fail (that row) or truncate it")
      ->type_name("fail|truncate")
      ->capture_default_str()
      ->group(group);
}

void AddAnswers(CLI::App& command, RagCommand& options) {
  const char* group = "Answers";
  RagOptions& rag = options.rag;
  command
      .add_option("--method", options.method,
                  "experts: every document by itself; concat: all in one prompt; top1: the most "
                  "relevant; map-reduce: an answer from each, then one from these; kv-concat: "
                  "computed apart, read side by side")
      ->type_name("experts|concat|top1|map-reduce|kv-concat")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--experts", options.experts,
                  "What every expert reads: a document, or few-shot examples")
      ->type_name("documents|examples")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--examples", options.examples,
                  "JSONL of {\"question\",\"answer\"} for records without examples of their own")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--examples-per-expert", rag.examples_per_expert,
                  "How many examples each expert reads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--beta", options.beta,
                  "Contrast with the stream that has no document: expert (each its own, measured "
                  "at the first token), shared (their mean), or a number")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--gamma", rag.gamma, "Weight of the relevance (default: 1, of raw scores 2.5)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command
      .add_option("--scores", options.scores,
                  "What experts are compared by: log-probabilities (normalised), or logits as in "
                  "the paper (raw)")
      ->type_name("normalised|raw")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--plausibility", rag.panel.plausibility,
                  "An expert proposes only tokens with at least this share of its best one's "
                  "probability; 0: any")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--abstention", rag.panel.abstention,
                  "Experts that begin with null at this probability or more do not vote, unless "
                  "all do; 0: all vote")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--abstention-scope", options.abstention_scope,
                  "What they are silent about: the first token, that is whether there is an "
                  "answer; or all of the answer")
      ->type_name("first|answer")
      ->capture_default_str()
      ->group(group);
  command.add_option("--rule", options.rule, "How experts become one")
      ->type_name("max|mixture|product")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--ape-temperature", rag.ape_temperature,
                  "kv-concat: scores of document tokens are divided by it; below 1 sharpens")
      ->check(CLI::Range(0.1, 2.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--ape-scale", rag.ape_scale,
                  "kv-concat: the log-sum-exp of these scores is multiplied by it")
      ->check(CLI::Range(0.1, 2.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--copy", rag.copy,
                "The answer is copied from one of the documents, word for word, or null")
      ->group(group);
  command
      .add_flag("--verify", rag.verify,
                "Answer again without each document that is cited; the row says whether that "
                "changes the answer")
      ->group(group);
  command.add_option("--max-new", rag.max_new, "Tokens of an answer, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--stop", rag.stop, "A text that ends an answer; may be given several times")
      ->allow_extra_args(false)
      ->group(group);
  options.instruction = kDefaultInstruction;
  command
      .add_option("--instruction", options.instruction, "What the model is told first, or @FILE")
      ->group(group);
  options.map_instruction = rag.map_instruction;
  command
      .add_option("--map-instruction", options.map_instruction,
                  "map-reduce: what it is told with each document, or @FILE")
      ->group(group);
  command.add_option("--chat", options.chat, "The model's chat template")
      ->type_name("auto|on|off")
      ->capture_default_str()
      ->group(group);
}

void AddInput(CLI::App& command, RagCommand& options) {
  const char* group = "Input";
  command.add_option("input", options.job.inputs,
                     "A question, files, quoted patterns such as 'in/*.jsonl', or - for standard "
                     "input");
  command
      .add_option("--field", options.fields,
                  "OURS=THEIRS: the input calls a field otherwise, e.g. question=query")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--limit", options.job.limit, "Only the first N records of the input")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--shard", options.shard, "i/n: every n-th record, from the i-th on")
      ->group(group);
  command
      .add_option("--max-errors", options.job.max_errors,
                  "Stop when there are more error rows than this (default: never)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void AddOutput(CLI::App& command, RagCommand& options) {
  const char* group = "Output";
  JobOptions& job = options.job;
  command
      .add_option("-o,--output", job.output,
                  "The output file; .gz and .zst are packed; - for standard output")
      ->capture_default_str()
      ->group(group);
  command.add_flag("--json", options.json, "A question's whole row, not its answer alone")
      ->group(group);
  command.add_option("--trace", options.trace_page, "Draw who wrote what, as a page of HTML")
      ->group(group);
  command.add_flag("--no-trace", options.no_trace, "Rows without the trace")->group(group);
  command.add_flag("--ordered", job.ordered, "Rows in the order of the input")->group(group);
  command
      .add_flag("--resume", job.resume,
                "Go on where an interrupted job stopped (OUTPUT.journal says where)")
      ->group(group);
  command
      .add_flag("--retry-errors", job.retry_errors,
                "With --resume: ask again what ended in an error row, and replace it")
      ->group(group);
  command
      .add_flag("--overwrite", job.overwrite,
                "Begin anew whatever OUTPUT holds; with --resume: keep what is the job's own, "
                "write the rest again")
      ->group(group);
  command.add_option("--receipt", job.receipt, "Write the receipt as JSON to this file")
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

}  // namespace

void RagCommand::AddTo(CLI::App& command) {
  command.footer(kRagHelp);
  AddInput(command, *this);
  AddDocuments(command, *this);
  AddAnswers(command, *this);
  AddOutput(command, *this);
  kv.AddTo(command);
  run.model_by_default = true;
  run.AddTo(command, "mixed");
  for (CLI::Option* option : command.get_options()) {
    const bool common =
        option->get_positional() || option->check_lname("help") || option->check_lname("model");
    if (!common && option->get_group() == "Options") option->group("Machine");
  }
}

}  // namespace banyan::app
