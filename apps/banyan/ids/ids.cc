// banyan ids: the engine on tokens, for testing and for porting models. One JSON object per line
// in, one per line out, in the order of the input; a bad line gives an error row and the others go
// on.
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "banyan/encoder.h"
#include "banyan/error.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "commands.h"
#include "ids/ids_run.h"
#include "job/run_options.h"

namespace banyan::app {
namespace {

struct IdsOptions {
  RunOptions run;
  std::string tokenizer;
  std::string input = "-";
};

int RunIds(IdsOptions& options) {
  options.run.Resolve();
  if (options.run.load.model.empty() && options.tokenizer.empty()) {
    throw Error(ErrorKind::kUsage, "ids: expected a model (-m) or a tokenizer (--tokenizer)");
  }
  IdsRun::Models models;
  if (!options.run.load.model.empty()) {
    if (Encoder::IsEncoder(options.run.load.model)) {
      models.encoder = options.run.LoadEncoder(false);
      models.text = models.encoder->text();
    } else {
      models.decoder = options.run.LoadModel(false);
      models.text = models.decoder->text();
    }
  }
  if (!options.tokenizer.empty()) models.text = Text::Load(options.tokenizer);
  IdsRun run(models, options.run);
  std::ios::sync_with_stdio(false);
  if (options.input == "-") return run.Run(std::cin, std::cout);
  std::ifstream file(options.input);
  if (!file) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot open the input file", options.input));
  }
  return run.Run(file, std::cout);
}

}  // namespace

Command AddIds(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ids", "Run the engine on token ids, one JSON object per line (for testing and porting)");
  command->footer(
      R"(Kinds of input lines (each with "id" and "kind"; output lines carry the same id):
  {"kind":"logits","ids":[…]}                                   -> "last_logits"
  {"kind":"greedy","ids":[…],"max_new":N,"stop":T or [T…]}      -> "tokens"
  {"kind":"stacked","p":[…],"contexts":[{"c":[…],"questions":[{"x":[…]}]}],"max_new":N,"stop":T}
                                                                -> "answers"
  {"kind":"experts","system":[…],"documents":[[…]],"question":[…],"r":[…],"gamma":2.5,
   "beta":"expert"|"shared"|B,"rule":"max"|"mixture"|"product"}  -> "tokens", "expert", "betas"
      "scores":"raw"|"normalised", "plausibility":A; "abstention":P with "null":[T…] -> "abstentions"
  {"kind":"skeleton","prompt":[…],"attributes":[[…]…],"kmax":N or [N…],"stop":T}  -> "values"
      "isolated":true: values do not see one another, and with "gap":0 there is no room between
  {"kind":"embed","ids":[…]}                                    -> "dense", "sparse", "colbert"
  {"kind":"rerank","ids":[…]}                                   -> "logit"
  {"kind":"tokenize","text":"…","add_special":false}            -> "ids"
  {"kind":"detokenize","ids":[…]}                               -> "text"
  {"kind":"mask","regex":"…","ids":[…]}                         -> "allowed", "sha256", "end"
      what may follow the tokens: how many, a hash of their ids, the text's end; "tokens" when they
      are few; "schema":"…" (JSON Schema as text) in place of "regex"
  {"kind":"chat","messages":[…],"add_generation_prompt":true,"extra":{}} -> "text"
"logprobs":true adds log-probabilities; temperature, top_k, top_p, min_p, repetition_penalty and
seed turn greedy into sampling. Exit code 0: all lines answered, 1: some were bad, 2: none were read.)");
  auto options = std::make_shared<IdsOptions>();
  options->run.comparisons = true;
  options->run.AddTo(*command, "f32");
  command->add_option("--tokenizer", options->tokenizer,
                      "tokenizer.json, its directory, or a GGUF file, for the text kinds");
  command->add_option("input", options->input, "JSONL file; - for standard input")
      ->capture_default_str();
  return [options] { return RunIds(*options); };
}

}  // namespace banyan::app
