// banyan extract: attribute values out of many documents. Options and help are in
// extract_options.cc, the work is in the library.
#include <chrono>
#include <memory>
#include <string>

#include "banyan/extract.h"
#include "commands.h"
#include "extract/extract_options.h"
#include "job/job_session.h"
#include "program/fresh_file.h"
#include "terminal/screen.h"

namespace banyan::app {
namespace {

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
  const JobSession session(command.job, command.quiet);
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  JobReceipt receipt = RunExtract(model, command.run.engine, command.extract, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
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
