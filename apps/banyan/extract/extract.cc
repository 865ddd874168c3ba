// banyan extract: attribute values out of many documents. Options, help and the run; the work is in
// the library.
#include <unistd.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/extract.h"
#include "banyan/job.h"
#include "job/job_options.h"
#include "job/job_session.h"
#include "model/reader_offer.h"
#include "program.h"
#include "program/fresh_file.h"
#include "program/options.h"
#include "shell/help.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

struct ExtractCommand {
  RunOptions run;
  ExtractOptions extract;
  JobOptions job;
  InputOptions input;
  TableOptions table;    // of `extract`
  std::string report;    // file; empty: none
  bool propose = false;  // `extract schema`: no schema is needed, one is written
  ProposeOptions proposal;
  bool json = false;  // `extract schema`: all about the proposal, for programs
  bool show_prompt = false, layout = false, dry_run = false, quiet = false;

  // Adds all options, and the examples that end the help.
  void AddTo(CLI::App& command);
  // The same of `extract schema`.
  void AddProposalTo(CLI::App& command);
  // Of `extract schema`: the input and the schema's file. Throws.
  void CheckProposal() const;
  // Values to read, on a terminal that was promised nothing else.
  void ChooseFormat();
  // Checks and converts what is text on the command line, reads the files that it names, and checks
  // the job. Throws.
  void Resolve();
};

constexpr const char* kExtractHelp = R"(
Fills the attributes of a schema from documents: one document per input line, one row of values per
output line. All values of a document are copied from it in parallel and converted to their types;
missing ones are null.

Examples
  $ cat schema.json
  {"attributes":[{"name":"brand","examples":["Sony"]},{"name":"weight","type":"number","unit":"kg"},
   {"name":"colour","type":"enum","values":["black","white"]},{"name":"ports","type":"list","of":"text"}]}
  $ banyan extract -m model.gguf docs.jsonl --schema schema.json -o values.jsonl
  The prompt of the first document:
    $ banyan extract -m model.gguf docs.jsonl --schema schema.json --show-prompt
  One value after another, for comparison:
    $ banyan extract -m model.gguf docs.jsonl --schema schema.json --values sequential -o other.jsonl
  After Ctrl-C or a power cut: the same command with --resume.

Input
  JSONL: {"id"?, "text", "category"?, …}, or {"id"?, "documents":[{"id","text"},…], …}: several documents
  about one thing become one row, and "sources" names the document of each value. CSV or TSV: a header
  with the same names. Text, HTML and PDF files, and folders of them, are documents. .gz and .zst are
  decompressed. Other fields are copied.
Schema
  {"categories":{NAME:{"description"?,"attributes":[…]}}}, or {"attributes":[…]}, or a JSON Schema of
  an object. An attribute: {"name","description"?,"examples"?,"type"?,"nullable"?,"max_tokens"?}; types:
  text (pattern, max_length), number and integer (unit, units, minimum, maximum), boolean, date,
  enum (values), list (of, max_items), object (attributes). docs/extract.md has the details.
Output
  {"id","category"?,"values":{…},"confidence":{…},"spans":{…},"units"?:{…},"raw"?:{…},"reasons"?:{…},…}:
  confidence is the probability that a value is right, a span its characters in the document (null: it
  does not occur), raw what the model wrote if that is not the value, a reason why a value is null
  nevertheless. CSV, TSV and Markdown tables have one column per attribute.
Template variables
  {document} {names} {attributes} {examples} {details} {category} {instruction} {id} and every other
  field; {details} is the list of attributes with examples, if the names alone are not enough;
  {{ and }} are braces. With a chat template this is the user's message, without one the whole prompt.
Exit code
  0: every document has its row; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

void AddInput(CLI::App& command, ExtractCommand& options) {
  command.add_option("input", options.job.inputs,
                     "Files, folders, quoted patterns such as 'docs/*.jsonl.gz', or - for standard "
                     "input");
  options.table.AddTo(command, Bind(options.extract), {"Input"});
  options.input.AddTo(command, options.job, "text=body");
  options.input.AddRecordsTo(command, options.job);
}

void AddPrompt(CLI::App& command, ExtractCommand& options) {
  const char* group = "Prompt";
  options.table.AddTo(command, Bind(options.extract), {group});
  command
      .add_flag("--dry-run", options.dry_run,
                "Print what the job would do and its expected time, and exit")
      ->group(group);
  command
      .add_flag("--show-prompt", options.show_prompt,
                "Print the prompt of the first document and exit")
      ->group(group);
  command
      .add_flag(
          "--layout", options.layout,
          "Print every document's tokens, positions and slots as JSON, for training, and exit")
      ->group(group);
}

void AddOutput(CLI::App& command, ExtractCommand& options) {
  const char* group = "Output";
  options.input.AddOutputTo(command, options.job);
  command.get_option("--output-format")
      ->type_name("jsonl|csv|tsv|md|text")
      ->description(
          "Format of the output, whatever its name; text is for people (default on a terminal)");
  command
      .add_option(
          "--report", options.report,
          "Write an HTML page: documents with their values, and the values of each attribute")
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

void ExtractCommand::AddTo(CLI::App& command) {
  command.footer(kExtractHelp);
  AddInput(command, *this);
  AddPrompt(command, *this);
  table.AddTo(command, Bind(extract), {"Values"});
  AddOutput(command, *this);
  run.model_by_default = true;
  run.AddTo(command, "mixed", "Machine");
  SetFirstOptions(
      command,
      {{"Input", {"--field", "--id", "--limit"}},
       {"Values", {"--schema", "--category", "--min-confidence", "--too-long"}},
       {"Output", {"--output", "--output-format", "--report", "--ordered", "--quiet", "--verbose"}},
       {"Jobs", {"--dry-run", "--resume", "--overwrite"}},
       {"Model", {"--model", "--threads"}},
       {"Help", {"--help", "--help-all"}}});
}

void ExtractCommand::AddProposalTo(CLI::App& command) {
  propose = true;
  command.footer(R"(
Reads 3 to 20 documents and proposes a schema for documents like these. Candidates are labels that
several documents have ("Colour: …", headers of tables) and common names of the kind of document; the
model looks for a value of each, and those that stand in several documents are kept, with a type that
fits the values. Look it through, then use it with --schema.

  $ banyan extract schema -m model.gguf docs.jsonl -o schema.json
  $ banyan extract -m model.gguf docs.jsonl --schema schema.json -o values.jsonl

Output
  The schema, and a table for people: type, documents that have the attribute, mean confidence of its
  values, in how many documents it is a label, examples. With -o the schema goes to the file and the
  table to standard output, else the schema to standard output and the table to stderr.
Exit code
  0: a schema was written; 2: fewer than 3 documents, or nothing that several of them have.)");
  command.add_option("input", job.inputs,
                     "Files, folders, quoted patterns, or - for standard input");
  command.add_option("-o,--output", job.output, "The file for the schema; - for standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command.add_flag("--overwrite", job.overwrite, "Replace the file for the schema");
  command.add_flag(
      "--json", json,
      "Print the proposal as one line of JSON: coverage, examples with their documents, "
      "and the schema");
  command.add_option("--category", proposal.category, "The category's name in the schema");
  std::string kinds;
  for (const std::string& kind : SchemaKinds()) kinds += (kinds.empty() ? "" : ", ") + kind;
  command
      .add_option("--kind", proposal.kind,
                  "The kind of documents whose common names are tried: " + kinds +
                      " (default: by their words)")
      ->type_name("KIND");
  command
      .add_option("--names", proposal.names,
                  "Names to try too, with commas between; kept if any document has a value")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--documents", proposal.documents,
                  "How many are read, from the first on; empty ones and doubles are left out")
      ->check(CLI::Range(kLeastSamples, kMostSamples))
      ->capture_default_str();
  command
      .add_option("--min-documents", proposal.least_documents,
                  "Documents that must have a sure value for an attribute")
      ->check(CLI::Range(1, kMostSamples))
      ->capture_default_str();
  command.add_option("--attributes", proposal.attributes, "At most so many are proposed")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  input.AddTo(command, job, "text=body");
  command.add_flag("--quiet", quiet, "No progress and no table on stderr");
  run.model_by_default = true;
  run.AddTo(command, "mixed");
  SetFirstOptions(
      command,
      {{"Proposal",
        {"--kind", "--names", "--documents", "--min-documents", "--attributes", "--category"}},
       {"Input", {"--field", "--id", "--input-format"}},
       {"Output", {"--output", "--overwrite", "--json", "--quiet"}},
       {"Model", {"--model", "--threads"}},
       {"Help", {"--help", "--help-all"}}});
}

// What can be refused before a model is loaded.
void ExtractCommand::CheckProposal() const {
  JobOptions inputs = job;
  inputs.output = "-";
  CheckJob(inputs);
  GuardOutput(job.output, "-o", job.overwrite);
  const std::vector<std::string> kinds = SchemaKinds();
  if (!proposal.kind.empty() && std::ranges::find(kinds, proposal.kind) == kinds.end()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("extract schema: --kind: expected one of {}; found '{}'",
                            fmt::join(kinds, ", "), proposal.kind));
  }
}

void ExtractCommand::ChooseFormat() {
  const bool wants_rows = dry_run || show_prompt || layout || !job.columns.empty() || extract.flat;
  if (job.output != "-" || !job.output_format.empty() || wants_rows) return;
  if (::isatty(STDOUT_FILENO) == 1) job.output_format = "text";
}

void ExtractCommand::Resolve() {
  ChooseReader(run, ReaderTask::kExtract, /*may_ask=*/false);
  run.Resolve();
  if (job.inputs.empty()) throw Error(ErrorKind::kUsage, "extract: expected an input file, or -");
  input.Resolve({"id", "text", "category", "documents"}, job);
  job.document_field = "text";
  job.other_document_field = "context";
  job.needed_columns = {{"text"}};
  if (propose) return CheckProposal();
  ChooseFormat();
  if (table.Given("schema").empty()) {
    throw Error(ErrorKind::kUsage,
                "extract: expected a schema (--schema FILE, or --schema '{\"brand\":\"text\"}')");
  }
  extract.schema_name = "--schema";
  table.ReadFiles([this](const std::string& option, const std::string& path) {
    if (option == "--schema") extract.schema_name = path;
    job.other_files.emplace_back(option, path);
  });
  for (const std::string& file : run.ModelFiles()) {
    job.other_files.emplace_back("the model", file);
  }
  if (!report.empty() && job.output == "-") {
    throw Error(ErrorKind::kUsage, "--report: expected an output file (-o FILE.jsonl)");
  }
  if (!report.empty()) job.side_outputs.emplace_back("--report", report);
  CheckJob(job);
  CheckExtract(extract, job);
}

// banyan extract: attribute values out of many documents. Options and help are in
// extract_options.cc, the work is in the library.

int RunExtractCommand(ExtractCommand& command) {
  command.Resolve();
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (command.dry_run)
    return ShowEstimate(EstimateExtract(model, command.run.engine, command.extract, command.job),
                        command.quiet);
  if (command.show_prompt) {
    Print(ShowExtractPrompt(model, command.extract, command.job) + "\n");
    return 0;
  }
  if (command.layout) {
    WriteExtractLayouts(model, command.extract, command.job,
                        [](const std::string& line) { Print(line + "\n"); });
    return 0;
  }
  const JobSession session(command.job, command.quiet, command.input.verbose);
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  JobReceipt receipt = RunExtract(model, command.run.engine, command.extract, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  receipt.adapter = command.run.load.adapter;
  if (!command.report.empty() && receipt.MayWrite(command.report)) {
    WriteExtractReport(command.job, command.report);
  }
  return session.Finish(receipt);
}

int RunProposal(ExtractCommand& command) {
  command.Resolve();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  if (!command.quiet) command.job.notice = [](const std::string& text) { SayLine(text); };
  const SchemaProposal proposal =
      ProposeSchema(model, command.run.engine, command.proposal, command.job);
  if (command.job.output != "-") {
    WriteFreshFile(command.job.output, "-o", command.job.overwrite, proposal.schema + "\n");
  }
  if (command.json) {
    Print(proposal.ToJson() + "\n");
  } else if (command.job.output != "-") {
    Print(proposal.ToText());
  } else {
    if (!command.quiet) Say(proposal.ToText());
    Print(proposal.schema + "\n");
  }
  return 0;
}

}  // namespace

Command AddExtract(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("extract", "Fill the attributes of a schema from many documents");
  auto options = std::make_shared<ExtractCommand>();
  options->AddTo(*command);
  CLI::App* schema = command->add_subcommand("schema", "Propose a schema for documents like these");
  auto proposal = std::make_shared<ExtractCommand>();
  proposal->AddProposalTo(*schema);
  return [options, proposal, schema] {
    return schema->parsed() ? RunProposal(*proposal) : RunExtractCommand(*options);
  };
}

}  // namespace banyan::app
