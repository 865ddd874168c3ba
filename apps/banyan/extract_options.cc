#include "extract_options.h"

#include <filesystem>

#include "banyan/error.h"
#include "option_text.h"
#include "reader_offer.h"

namespace banyan::app {
namespace {

constexpr const char* kExtractHelp = R"(
Every line of the input is a document; every line of the output has its values: those of all
attributes that the schema lists, copied from the document at once and turned into their types, null
where the document does not say.

Examples
  $ cat schema.json
  {"attributes":[{"name":"brand","examples":["Sony"]},{"name":"weight","type":"number","unit":"kg"},
   {"name":"colour","type":"enum","values":["black","white"]},{"name":"ports","type":"list","of":"text"}]}
  $ banyan extract -m model.gguf docs.jsonl --schema schema.json -o values.jsonl
  What the model reads of the first document:
    $ banyan extract -m model.gguf docs.jsonl --schema schema.json --show-prompt
  As any JSON, one value after another, to compare:
    $ banyan extract -m model.gguf docs.jsonl --schema schema.json --values sequential -o other.jsonl
  After Ctrl-C or a power cut: the same command with --resume.

Input
  JSONL: {"id"?, "text", "category"?, …}, or {"id"?, "documents":[{"id","text"},…], …}: several documents
  of one thing become one row, and "sources" says from which document each value is. CSV or TSV: a
  header with the same names; text, HTML and PDF files, and folders of them, are documents. .gz and
  .zst are unpacked. Other fields are carried through.
Schema
  {"categories":{NAME:{"description"?,"attributes":[…]}}}, or {"attributes":[…]}, or a JSON Schema of
  an object. An attribute: {"name","description"?,"examples"?,"type"?,"nullable"?,"max_tokens"?}; types:
  text (pattern, max_length), number and integer (unit, units, minimum, maximum), boolean, date,
  enum (values), list (of, max_items), object (attributes). docs/extract.md has all of it.
Output
  {"id","category"?,"values":{…},"confidence":{…},"spans":{…},"units"?:{…},"raw"?:{…},"reasons"?:{…},…}:
  confidence is the probability that a value is right, a span the characters of the document where it
  stands (null: nowhere), raw what the model wrote where that is not the value, a reason why a value is
  null all the same. CSV, TSV and Markdown tables have a column for every attribute.
Template variables
  {document} {names} {attributes} {examples} {details} {category} {instruction} {id} and every other
  field; {details} is the list of attributes with examples where the names alone do not say it all;
  {{ and }} are braces. In a chat the template is the user's message, without one the whole prompt.
Exit code
  0: every document has its row; 1: some rows failed or the job was stopped; 2: nothing could be done.)";

void AddInput(CLI::App& command, ExtractCommand& options) {
  const char* group = "Input";
  command.add_option("input", options.job.inputs,
                     "Files, folders, quoted patterns such as 'docs/*.jsonl.gz', or - for standard "
                     "input");
  command
      .add_option("--schema", options.schema_file,
                  "The schema: categories with their attributes, or a JSON Schema")
      ->group(group);
  command
      .add_option("--category", options.extract.category,
                  "The category of documents that do not say theirs")
      ->group(group);
  command
      .add_option("--input-format", options.job.input_format,
                  "jsonl, csv, tsv, text, html or pdf (default: by the file's name, else by how it "
                  "begins)")
      ->group(group);
  command
      .add_option("--field", options.fields,
                  "OURS=THEIRS: the input calls a field otherwise, e.g. text=body")
      ->allow_extra_args(false)
      ->group(group);
  command.add_option("--limit", options.job.limit, "Only the first N records of the input")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
  command.add_option("--shard", options.shard, "i/n: every n-th document, from the i-th on")
      ->group(group);
  command
      .add_option("--max-errors", options.job.max_errors,
                  "Stop when there are more error rows than this (default: never)")
      ->check(CLI::NonNegativeNumber)
      ->group(group);
}

void AddPrompt(CLI::App& command, ExtractCommand& options) {
  const char* group = "Prompt";
  command
      .add_option(
          "--instruction", options.instruction_text,
          "What the model is told first, as text or @FILE (default: to write the attributes "
          "as JSON)")
      ->group(group);
  command
      .add_option("--template", options.template_text,
                  "Text or @FILE with {document}, {attributes} and other variables (below)")
      ->group(group);
  command
      .add_option("--examples,--few-shot", options.few_shot_file,
                  "Examples for the model: JSONL of {\"text\",\"values\",\"category\"?}")
      ->group(group);
  command.add_option("--chat", options.chat, "The model's chat template: auto, on or off")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--too-long", options.too_long,
                  "A document beyond the model's window: split (at paragraphs, values of the parts "
                  "joined), truncate or fail (that row)")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--dry-run", options.dry_run,
                "Only say what the job would do and about how long it would take")
      ->group(group);
  command
      .add_flag("--show-prompt", options.show_prompt,
                "Only print what the model reads of the first document")
      ->group(group);
  command
      .add_flag("--layout", options.layout,
                "Only print every document's tokens, positions and slots as JSON, for training")
      ->group(group);
}

void AddValues(CLI::App& command, ExtractCommand& options) {
  const char* group = "Values";
  command
      .add_option("--values", options.values,
                  "skeleton: all at once, each sees what is written of those above it; isolated: "
                  "at once, unseen by one another; sequential: one after another")
      ->capture_default_str()
      ->group(group);
  command
      .add_option(
          "--stack", options.extract.stack,
          "Documents of one prompt: those of a category that follow one another are read "
          "together, and their values may depend on one another: only for documents that "
          "you trust, since one can change the values of its neighbours; a little less is right "
          "(docs/results.md)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--fuse", options.fuse,
                  "Records with several documents. values: each document is read by itself and the "
                  "likeliest of their values counts; tokens: they write every value together, "
                  "token by token")
      ->type_name("values|tokens")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--gap", options.gap,
                  "0: isolated values leave no room for one another in the positions")
      ->check(CLI::Range(0, 1))
      ->group(group);
  command
      .add_flag("--copy,!--no-copy", options.extract.copy,
                "Texts, numbers and dates are copied from the document word for word, or null "
                "(default)")
      ->group(group);
  command
      .add_option("--min-confidence", options.extract.min_confidence,
                  "A value that is less likely right becomes null, and the row says so")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--max-tokens", options.extract.max_tokens,
                  "Tokens of a value whose attribute does not say (default: by its type)")
      ->check(CLI::Range(1, 4096))
      ->group(group);
}

void AddOutput(CLI::App& command, ExtractCommand& options) {
  const char* group = "Output";
  JobOptions& job = options.job;
  command
      .add_option("-o,--output", job.output,
                  "The output file; .gz and .zst are packed, .csv, .tsv and .md are tables; - for "
                  "standard output")
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--output-format", job.output_format,
                  "jsonl, csv, tsv or md (default: by name, else jsonl)")
      ->group(group);
  command.add_flag("--ordered", job.ordered, "Rows in the order of the input")->group(group);
  command
      .add_flag("--resume", job.resume,
                "Go on where an interrupted job stopped (OUTPUT.journal says where)")
      ->group(group);
  command
      .add_flag("--retry-errors", job.retry_errors,
                "With --resume: do again what ended in an error row, and replace it")
      ->group(group);
  command
      .add_flag("--overwrite", job.overwrite,
                "Begin anew whatever OUTPUT holds; with --resume: keep what is the job's own, "
                "write the rest again")
      ->group(group);
  command
      .add_option("--checkpoint", job.checkpoint_seconds,
                  "Seconds of work that an interruption may cost at most")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->group(group);
  command.add_option("--receipt", job.receipt, "Write the receipt as JSON to this file")
      ->group(group);
  command
      .add_option("--report", options.report,
                  "Write a page for the browser: documents with their values, and what each "
                  "attribute has")
      ->group(group);
  command
      .add_option("--price-per-hour", options.price_per_hour,
                  "What an hour of this machine costs: the receipt has the cost of 1000 documents")
      ->check(CLI::PositiveNumber)
      ->group(group);
  command.add_flag("--quiet", options.quiet, "No progress and no receipt on stderr")->group(group);
}

}  // namespace

void ExtractCommand::AddTo(CLI::App& command) {
  command.footer(kExtractHelp);
  AddInput(command, *this);
  AddPrompt(command, *this);
  AddValues(command, *this);
  AddOutput(command, *this);
  run.model_by_default = true;
  run.AddTo(command, "mixed");
  for (CLI::Option* option : command.get_options()) {
    const bool common =
        option->get_positional() || option->check_lname("help") || option->check_lname("model");
    if (!common && option->get_group() == "Options") option->group("Machine");
  }
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
  command.add_option("--input-format", job.input_format,
                     "jsonl, csv, tsv, text, html or pdf (default: by name)");
  command.add_option("--field", fields, "OURS=THEIRS, e.g. text=body")->allow_extra_args(false);
  command.add_flag("--quiet", quiet, "No progress and no table on stderr");
  run.model_by_default = true;
  run.AddTo(command, "mixed");
}

// What can be refused before a model is loaded.
void ExtractCommand::CheckProposal() const {
  JobOptions inputs = job;
  inputs.output = "-";
  CheckJob(inputs);
  if (job.output == "-") return;
  const std::filesystem::path folder = std::filesystem::path(job.output).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw Error(ErrorKind::kUsage, job.output + ": cannot be written: no such folder");
  }
  if (!job.overwrite && std::filesystem::exists(job.output)) {
    throw Error(ErrorKind::kUsage, job.output + ": is there already; --overwrite replaces it");
  }
}

void ExtractCommand::Resolve() {
  if (!propose) ChooseDefaultReader(run, ReaderTask::kExtract, /*may_ask=*/false);
  run.Resolve();
  if (job.inputs.empty()) throw Error(ErrorKind::kUsage, "extract: expected an input file, or -");
  ParseFieldOptions(fields, {"id", "text", "category", "documents"}, job);
  job.needed_columns = {{"text"}};
  if (propose) return CheckProposal();
  if (schema_file.empty()) {
    throw Error(ErrorKind::kUsage, "extract: expected a schema (--schema FILE)");
  }
  extract.schema = ReadOptionFile(schema_file, "--schema");
  extract.schema_name = schema_file;
  ParseExtractSchema(extract.schema, extract.schema_name);  // refused before a model is loaded
  extract.chat = NamedValue(chat, "--chat", ChatNames());
  extract.values = NamedValue(values, "--values", ValueModeNames());
  extract.fuse = NamedValue(fuse, "--fuse", FuseModeNames());
  extract.too_long = NamedValue(too_long, "--too-long", TooLongNames());
  extract.gaps = gap > 0;
  extract.instruction = TextOrFile(instruction_text, "--instruction");
  extract.prompt_template = TextOrFile(template_text, "--template");
  if (!few_shot_file.empty()) extract.few_shot = ReadOptionFile(few_shot_file, "--few-shot");
  job.other_files.emplace_back("--schema", schema_file);
  if (!few_shot_file.empty()) job.other_files.emplace_back("--few-shot", few_shot_file);
  for (const auto& [option, value] :
       {std::pair<const char*, const std::string&>("--instruction", instruction_text),
        {"--template", template_text}}) {
    if (value.starts_with('@')) job.other_files.emplace_back(option, value.substr(1));
  }
  for (const std::string& file : FilesOfModel(run.load.model)) {
    job.other_files.emplace_back("the model", file);
  }
  ParseShardOption(shard, job);
  if (!report.empty() && job.output == "-") {
    throw Error(ErrorKind::kUsage, "--report: expected an output file (-o FILE.jsonl)");
  }
  CheckJob(job);
}

}  // namespace banyan::app
