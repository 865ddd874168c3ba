// banyan eval: how good what a task wrote is.
#include <vector>

#include "commands.h"
#include "eval/eval_parts.h"

namespace banyan::app {

Command AddEval(CLI::App& app) {
  CLI::App* command = app.add_subcommand("eval", "Score the output of a task against gold answers");
  command->require_subcommand(1);
  const std::vector<EvalPart> parts = {AddEvalAsk(*command), AddEvalExtract(*command),
                                       AddEvalRag(*command)};
  return [parts] {
    for (const EvalPart& part : parts) {
      if (part.app->parsed()) return part.run();
    }
    return 2;
  };
}

}  // namespace banyan::app
