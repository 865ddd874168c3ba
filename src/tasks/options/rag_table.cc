#include "tasks/options/shared_rows.h"

namespace banyan {
namespace {

using RagRow = Row<RagOptions>;

bool HasIndex(const RagOptions& options) { return options.index != nullptr; }
bool IsPanel(const RagOptions& options) { return options.method == RagMethod::kExperts; }
bool IsMapReduce(const RagOptions& options) { return options.method == RagMethod::kMapReduce; }
bool IsKvConcat(const RagOptions& options) { return options.method == RagMethod::kKvConcat; }
bool OfExamples(const RagOptions& options) { return options.experts == ExpertsAre::kExamples; }

RagRow Candidates() {
  return RagRow::Custom(
             "candidates", OptionKind::kName,
             [](RagOptions& options, const OptionData& data, const std::string& called) {
               const auto& name = std::get<std::string>(data);
               options.candidates.reset();
               if (name != "auto") options.candidates = NamedValue(name, called, CandidateNames());
             },
             [](const RagOptions& options) -> std::optional<OptionData> {
               return options.candidates ? SignalName(*options.candidates) : std::string("auto");
             },
             "Signal that finds passages of the index; auto: dense if the index has vectors, "
             "otherwise bm25")
      .Names({"auto", "bm25", "dense", "sparse"})
      .Doors(kCommandLine | kPython);
}

RagRow Beta() {
  return RagRow::Custom(
             "beta", OptionKind::kNameOrNumber,
             [](RagOptions& options, const OptionData& data, const std::string& called) {
               ParseBeta(DataText(data), called, options.panel);
             },
             [](const RagOptions& options) -> std::optional<OptionData> {
               const PanelOptions& panel = options.panel;
               if (panel.beta_rule == BetaRule::kFixed) return panel.beta;
               return std::string(panel.beta_rule == BetaRule::kShared ? "shared" : "expert");
             },
             "Contrast with the stream that has no document: expert (each its own, measured at the "
             "first token), shared (their mean), or a number")
      .Names({"expert", "shared"})
      .Range(0, 1e6)
      .CountsIf(IsPanel);
}

void AddDocuments(OptionTable<RagOptions>& rows) {
  AddGroup<RagOptions>(
      rows, "Documents",
      {RagRow::Whole("top", &RagOptions::top, "Passages of the index for a question")
           .From(1)
           .Unit("passages")
           .Limit(ServerLimit::kAnswers)
           .CountsIf(HasIndex),
       Candidates(),
       RagRow::Whole("candidate_count", &RagOptions::candidate_count,
                     "Passages found before the --top most relevant are read; 0: four times --top "
                     "if another signal than --candidates scores them")
           .From(0)
           .Unit("passages")
           .Doors(kCommandLine | kPython)
           .CountsIf(HasIndex),
       RagRow::Name("relevance", &RagOptions::relevance, RelevanceNames(),
                    "Source of the documents' relevance: their scores (given), a signal, only the "
                    "reranker, or none (equal); auto: scores if all have one, otherwise the signal "
                    "of --candidates, otherwise dense with an --encoder, otherwise bm25")
           .NamesOverHttp({"auto", "given", "bm25", "equal"})
           .Identity(),
       RagRow::Number("min_relevance", &RagOptions::min_relevance,
                      "Documents below it are not read; the row names them")
           .Range(0, 1)
           .Identity(),
       RagRow::Name("too_long", &RagOptions::too_long, TooLongNamesWithoutSplit(),
                    "A document beyond the model's window: fail (that row) or truncate it")
           .Identity()});
}

void AddPanel(OptionTable<RagOptions>& rows) {
  AddGroup<RagOptions>(
      rows, "Answers",
      {RagRow::Name("method", &RagOptions::method, RagMethodNames(),
                    "experts: every document by itself; concat: all in one prompt; top1: the most "
                    "relevant; map-reduce: an answer from each, then one from these; kv-concat: "
                    "computed apart, read side by side")
           .NamesOverHttp({"experts", "concat", "top1", "map-reduce"})
           .Identity(),
       RagRow::Name("experts", &RagOptions::experts, ExpertsNames(),
                    "What every expert reads: a document, or few-shot examples")
           .Doors(kCommandLine | kPython)
           .CountsIf(OfExamples),
       RagRow::Whole("examples_per_expert", &RagOptions::examples_per_expert,
                     "How many examples each expert reads")
           .From(1)
           .Unit("examples")
           .Doors(kCommandLine | kPython)
           .CountsIf(OfExamples),
       Beta(),
       RagRow::Number("gamma", &RagOptions::gamma,
                      "Weight of the relevance (default: 1, of raw scores 2.5)")
           .Range(0, 1e6)
           .CountsIf(IsPanel),
       RagRow::Name(
           "scores", [](RagOptions & o) -> auto& { return o.panel.scores; }, PanelScoresNames(),
           "What experts are compared by: log-probabilities (normalised), or logits as in the "
           "paper (raw)")
           .CountsIf(IsPanel),
       RagRow::Number(
           "plausibility", [](RagOptions & o) -> auto& { return o.panel.plausibility; },
           "An expert proposes only tokens with at least this share of its best one's probability; "
           "0: any")
           .Range(0, 1)
           .CountsIf(IsPanel),
       RagRow::Number(
           "abstention", [](RagOptions & o) -> auto& { return o.panel.abstention; },
           "Experts that begin with null at this probability or more do not vote, unless all do; "
           "0: all vote")
           .Range(0, 1)
           .CountsIf(IsPanel),
       RagRow::Name(
           "rule", [](RagOptions & o) -> auto& { return o.panel.rule; }, FusionRuleNames(),
           "How experts become one")
           .CountsIf(IsPanel),
       RagRow::Whole("together", &RagOptions::together,
                     "One more expert reads so many of the most relevant documents together, for "
                     "questions that need several; 0: none")
           .Range(0, 64)
           .Unit("documents")
           .CountsIf([](const RagOptions& o) { return IsPanel(o) && o.together > 0; }),
       RagRow::Number("ape_temperature", &RagOptions::ape_temperature,
                      "kv-concat: scores of document tokens are divided by it; below 1 sharpens")
           .Range(0.1, 2)
           .Doors(kCommandLine | kPython)
           .CountsIf(IsKvConcat),
       RagRow::Number("ape_scale", &RagOptions::ape_scale,
                      "kv-concat: the log-sum-exp of these scores is multiplied by it")
           .Range(0.1, 2)
           .Doors(kCommandLine | kPython)
           .CountsIf(IsKvConcat)});
}

void AddAnswers(OptionTable<RagOptions>& rows) {
  AddGroup<RagOptions>(
      rows, "Answers",
      {RagRow::Flag("copy", &RagOptions::copy,
                    "The answer is copied from one of the documents, word for word, or null")
           .Identity(),
       RagRow::Flag("verify", &RagOptions::verify,
                    "Answer again without each document that is cited; the row says whether that "
                    "changes the answer")
           .Identity(),
       MaxNewRow<RagOptions>(), StopRow<RagOptions>(),
       RagRow::Text("instruction", &RagOptions::instruction,
                    "The instruction (system prompt), or @FILE")
           .Elsewhere("The instruction (system prompt)")
           .Style(CommandStyle::kTextOrFile)
           .WholeInIdentity(),
       RagRow::Text("map_instruction", &RagOptions::map_instruction,
                    "map-reduce: what it is told with each document, or @FILE")
           .Elsewhere("map-reduce: the instruction with each document")
           .Style(CommandStyle::kTextOrFile)
           .WholeInIdentity()
           .CountsIf(IsMapReduce),
       ChatRow<RagOptions>()});
  AddGroup<RagOptions>(rows, "Output",
                       {RagRow::Flag("trace", &RagOptions::trace, "Rows without the trace")
                            .Elsewhere("Rows name the source document of every token")
                            .Style(CommandStyle::kOnlyNo)
                            .Identity()});
}

}  // namespace

const OptionTable<RagOptions>& RagTable() {
  static const OptionTable<RagOptions> table = [] {
    OptionTable<RagOptions> rows;
    AddDocuments(rows);
    AddPanel(rows);
    AddAnswers(rows);
    return rows;
  }();
  return table;
}

}  // namespace banyan
