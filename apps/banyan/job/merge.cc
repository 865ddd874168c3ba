// banyan merge: the outputs of all shards as one. The work is in the library.
#include "program/job.h"

#include <memory>
#include <string>

#include "program.h"
#include "program/fresh_file.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

struct MergeCommand {
  MergeOptions options;
  std::string receipt;
  bool quiet = false;
};

int RunMerge(const MergeCommand& command) {
  const bool overwrite = command.options.overwrite;
  if (!command.receipt.empty()) GuardOutput(command.receipt, "--receipt", overwrite);
  const MergeReceipt receipt = MergeShards(command.options);
  if (!command.receipt.empty()) {
    WriteFreshFile(command.receipt, "--receipt", overwrite, receipt.ToJson() + "\n");
  }
  if (!command.quiet) Say(receipt.ToText());
  return receipt.error_rows > 0 ? 1 : 0;
}

}  // namespace

Command AddMerge(CLI::App& app) {
  CLI::App* command = app.add_subcommand("merge", "Check and join the outputs of all shards");
  command->footer(R"(
Jobs that were run with --shard 1/n to n/n become one output, with the journal that one job would have: --resume and
--retry-errors go on with it. Refused, with nothing written: a shard that is missing, twice there, unfinished or
changed since it was written; other parameters, another model or another input; a record that is in two of them.

Examples
  $ for i in 1 2 3; do banyan ask in.jsonl --shard $i/3 --ordered -o part.$i.jsonl --receipt part.$i.json & done; wait
  $ banyan merge part.*.jsonl -o out.jsonl --ordered --receipts part.1.json part.2.json part.3.json --receipt out.json
  In a Slurm array: --shard $((SLURM_ARRAY_TASK_ID + 1))/$SLURM_ARRAY_TASK_COUNT

Exit code
  0: joined, and every row was answered; 1: joined, with error rows among them; 2: refused.)");
  auto options = std::make_shared<MergeCommand>();
  command->add_option("shards", options->options.shards, "The outputs of all shards, in any order")
      ->required();
  command
      ->add_option("-o,--output", options->options.output,
                   "The output file, in the shards' format; .gz and .zst are compressed; - for "
                   "standard output")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_flag("--ordered", options->options.ordered,
                    "Rows in the order of the input; the shards must have been run so");
  command->add_option("--receipts", options->options.receipts, "The shards' receipts, in any order")
      ->type_name("FILE");
  command->add_option("--receipt", options->receipt, "Write a receipt of the whole as JSON")
      ->type_name("FILE");
  command->add_flag("--overwrite", options->options.overwrite,
                    "Replace what the output and the receipt hold");
  command->add_flag("--quiet", options->quiet, "Nothing on stderr");
  return [options] { return RunMerge(*options); };
}

}  // namespace banyan::app
