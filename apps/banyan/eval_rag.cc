// banyan eval rag.
#include "eval_parts.h"

#include <memory>
#include <string>
#include <vector>

#include "banyan/rag_score.h"
#include "screen.h"

namespace banyan::app {

EvalPart AddEvalRag(CLI::App& eval) {
  struct Options {
    std::string gold;
    std::vector<std::string> outputs;
    bool json = false;
  };
  CLI::App* rag = eval.add_subcommand(
      "rag", "Answers over documents: sub-span and exact match, F1, gold documents found");
  rag->footer(R"(
  $ banyan eval rag gold.jsonl experts.jsonl concat.jsonl

Gold rows: {"id","answers":[…],"documents":[{"id","gold"?}]?}: the best of the answers counts; without any,
null is right. Texts are compared in lower case without articles, punctuation and extra space.)");
  auto options = std::make_shared<Options>();
  rag->add_option("gold", options->gold, "JSONL with the right answers")->required();
  rag->add_option("output", options->outputs, "What rag wrote, as JSONL; several are compared")
      ->required();
  rag->add_flag("--json", options->json, "A line of JSON for each file");
  return {rag, [options] {
            std::vector<RagScore> scores;
            for (const std::string& output : options->outputs) {
              scores.push_back(ScoreRag(options->gold, output));
            }
            Print(options->json ? RagScoresJson(scores) : RagScoresText(scores));
            return 0;
          }};
}

}  // namespace banyan::app
