#include "rag_options.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "banyan/error.h"
#include "option_text.h"

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
    $ banyan rag index idx 'notes/*.txt' && banyan rag questions.jsonl --index idx -o out.jsonl
  Compared with all documents in one prompt:
    $ banyan rag in.jsonl --method concat -o concat.jsonl
    $ banyan eval rag in.jsonl out.jsonl concat.jsonl

Input
  JSONL: {"id","question","documents":[{"id","text","title"?,"score"?}]?}. A score is the document's
  relevance in (0, 1]; without scores BM25 gives it. Other fields are carried through.
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
      .add_option("--relevance", options.relevance,
                  "Of given documents: their scores, BM25 among them, equal; auto: scores where "
                  "all have one")
      ->type_name("auto|given|bm25|equal")
      ->capture_default_str()
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
                  "relevant; map-reduce: an answer from each, then one from these")
      ->type_name("experts|concat|top1|map-reduce")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--beta", options.beta,
                  "Contrast with the stream that has no document: expert (each its own, measured "
                  "at the first token), shared (their mean), or a number")
      ->capture_default_str()
      ->group(group);
  command.add_option("--gamma", rag.panel.gamma, "Weight of the relevance")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--rule", options.rule, "How experts become one")
      ->type_name("max|mixture|product")
      ->capture_default_str()
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
  if (IsQuestion() && index.empty()) index = kDefaultIndex;
  if (!index.empty()) rag.index = DocumentIndex::Open(index);
  kv.Resolve(run.engine);
}

}  // namespace banyan::app
