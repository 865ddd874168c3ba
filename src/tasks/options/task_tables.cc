// Options of the tasks: ask, extract and rag.
#include "tasks/options/option_rows.h"

namespace banyan {

namespace {

using AskRow = Row<AskOptions>;

bool IsSampled(const AskOptions& options) { return options.sampling.temperature > 0.0f; }

}  // namespace

const OptionTable<AskOptions>& AskTable() {
  static const OptionTable<AskOptions> table = [] {
    OptionTable<AskOptions> rows;
    AddGroup<AskOptions>(
        rows, "Prompt",
        {AskRow::Text(
             "instruction", &AskOptions::instruction,
             "The instruction (system prompt), as text or @FILE; a record may have its own")
             .Elsewhere("The instruction (system prompt); a record may have its own")
             .Style(CommandStyle::kTextOrFile)
             .Identity(),
         AskRow::Text("template", &AskOptions::prompt_template,
                      "Text or @FILE with {context}, {question} and other variables (below)")
             .Elsewhere("The prompt, with {context}, {question} and other fields in braces")
             .Style(CommandStyle::kTextOrFile)
             .Identity(),
         AskRow::Text("few_shot", &AskOptions::few_shot,
                      "Examples: a text that follows the instruction, or JSONL of "
                      "{\"context\"?,\"question\",\"answer\"}")
             .Style(CommandStyle::kFile)
             .Alias("examples")
             .Identity(),
         ChatRow<AskOptions>(),
         AskRow::Flag("thinking", &AskOptions::thinking,
                      "on or off, for chat templates with enable_thinking")
             .Elsewhere("Chat templates with enable_thinking ask for thoughts first")
             .Style(CommandStyle::kOnOff)
             .Identity(),
         AskRow::Name("too_long", &AskOptions::too_long, TooLongNames(),
                      "A prompt beyond the model's window: fail (that row), truncate the context, "
                      "or split it and take the most confident answer")
             .Identity(),
         AskRow::Whole("part_tokens", &AskOptions::part_tokens,
                       "With --too-long split: document tokens per part; 0: as many as fit; short "
                       "parts give better answers than long ones")
             .Range(0, 1 << 30)
             .Unit("tokens")
             .Identity(InIdentity::kUnlessDefault),
         AskRow::Flag("reduce", &AskOptions::reduce,
                      "With --too-long split: the model then reads the passages around the best "
                      "answers together and answers once more")
             .Identity(InIdentity::kUnlessDefault)});
    AddGroup<AskOptions>(
        rows, "Answers",
        {MaxNewRow<AskOptions>(), StopRow<AskOptions>(),
         AskRow::Flag("copy", &AskOptions::copy,
                      "Restrict free answers to verbatim spans of the document, or null (default: "
                      "if the model's card says so)")
             .Style(CommandStyle::kYesOrNo)
             .Identity(),
         AskRow::Number("min_confidence", &AskOptions::min_confidence,
                        "Replace free answers by null if their confidence is lower; needs a model "
                        "whose card has a calibration (docs/model-card.md)")
             .Range(0, 1)
             .Identity(InIdentity::kUnlessDefault),
         AskRow::Text("regex", &AskOptions::regex,
                      "Regular expression that free answers must match completely")
             .Identity(),
         AskRow::JsonText("json_schema", &AskOptions::json_schema,
                          "File with a JSON Schema that free answers must match; rows also have "
                          "the answer as `value`")
             .Elsewhere(
                 "A JSON Schema that free answers must match; rows also have the answer as `value`")
             .Style(CommandStyle::kFile)
             .Identity(),
         AskRow::Number(
             "temperature", [](AskOptions & o) -> auto& { return o.sampling.temperature; },
             "Sampling temperature; 0: greedy")
             .Range(0, 100)
             .Identity(),
         AskRow::Whole(
             "top_k", [](AskOptions & o) -> auto& { return o.sampling.top_k; },
             "Only the k most likely tokens; 0: all")
             .Range(0, 1 << 20)
             .Unit("tokens")
             .CountsIf(IsSampled),
         AskRow::Number(
             "top_p", [](AskOptions & o) -> auto& { return o.sampling.top_p; },
             "Nucleus sampling: only the most likely tokens with this total probability")
             .Range(0, 1)
             .CountsIf(IsSampled),
         AskRow::Number(
             "min_p", [](AskOptions & o) -> auto& { return o.sampling.min_p; },
             "Only tokens with at least this share of the best token's probability")
             .Range(0, 1)
             .CountsIf(IsSampled),
         AskRow::Number(
             "repetition_penalty",
             [](AskOptions & o) -> auto& { return o.sampling.repetition_penalty; },
             "Above 1: tokens of the answer become less likely")
             .Range(0.01, 100)
             .Identity(),
         AskRow::Whole(
             "seed", [](AskOptions & o) -> auto& { return o.sampling.seed; },
             "Seed of the random draws")
             .From(0)
             .CountsIf(IsSampled),
         AskRow::Whole("samples", &AskOptions::samples, "Answers per question")
             .From(1)
             .Limit(ServerLimit::kAnswers)
             .Identity(),
         AskRow::Flag("vote", &AskOptions::vote, "The answer is the most frequent sample")
             .Identity(),
         AskRow::Name("choices", &AskOptions::choices, ChoiceModeNames(),
                      "Questions with choices: score each option, or show them with letters and "
                      "take the most likely letter (auto: as the reader's card says)")
             .Identity(),
         AskRow::Name("choice_score", &AskOptions::choice_score, ChoiceScoreNames(),
                      "Score of an option: its log-probability (sum), the mean per token, or the "
                      "sum minus the log-probability without the document (prior, for labels that "
                      "do not occur in the text)")
             .Identity(),
         AskRow::Flag("logprobs", &AskOptions::logprobs, "Add the log-probability of every token")
             .Identity(),
         AskRow::Whole("top_logprobs", &AskOptions::top_logprobs,
                       "Add the N most likely tokens at each position")
             .Range(0, 100)
             .Unit("tokens")
             .Identity(),
         AskRow::Flag("token_ids", &AskOptions::token_ids, "Add the token ids").Identity()});
    return rows;
  }();
  return table;
}

const OptionTable<ExtractOptions>& ExtractTable() {
  using ExtractRow = Row<ExtractOptions>;
  static const OptionTable<ExtractOptions> table = [] {
    OptionTable<ExtractOptions> rows;
    AddGroup<ExtractOptions>(
        rows, "Input",
        {ExtractRow::JsonText("schema", &ExtractOptions::schema,
                              "The schema, as a file or inline: '{\"brand\":\"text\",\"price\":"
                              "\"number in EUR\"}', attributes, categories with attributes, or a "
                              "JSON Schema")
             .Elsewhere(
                 "Attributes, categories with attributes, or a JSON Schema (docs/extract.md)")
             .Style(CommandStyle::kInlineOrFile)
             .Identity(),
         ExtractRow::Text("category", &ExtractOptions::category,
                          "The category of documents without one")
             .WholeInIdentity()});
    AddGroup<ExtractOptions>(
        rows, "Prompt",
        {ExtractRow::Text("instruction", &ExtractOptions::instruction,
                          "The instruction (system prompt), as text or @FILE (default: to write "
                          "the attributes as JSON)")
             .Elsewhere("The instruction (system prompt); {names} and {category} are replaced")
             .Style(CommandStyle::kTextOrFile)
             .Identity(),
         ExtractRow::Text("template", &ExtractOptions::prompt_template,
                          "Text or @FILE with {document}, {attributes} and other variables (below)")
             .Elsewhere("The prompt, with {document}, {attributes} and other fields in braces")
             .Style(CommandStyle::kTextOrFile)
             .Identity(),
         ExtractRow::Text("few_shot", &ExtractOptions::few_shot,
                          "Examples for the model: JSONL of {\"text\",\"values\",\"category\"?}")
             .Called("--examples,--few-shot")
             .Alias("examples")
             .Style(CommandStyle::kFile)
             .Identity(),
         ChatRow<ExtractOptions>(),
         ExtractRow::Name("too_long", &ExtractOptions::too_long, TooLongNames(),
                          "A document beyond the model's window: split (at paragraphs, values of "
                          "the parts joined), truncate or fail (that row)")
             .Identity()});
    AddGroup<ExtractOptions>(
        rows, "Values",
        {ExtractRow::Name("values", &ExtractOptions::values, ValueModeNames(),
                          "skeleton: in parallel, each value sees the tokens of earlier values so "
                          "far; isolated: in parallel, values do not see each other; sequential: "
                          "one after another")
             .Identity(),
         ExtractRow::Whole("stack", &ExtractOptions::stack,
                           "Documents per prompt: consecutive documents of a category are read "
                           "together. Their values may depend on each other, so use it only for "
                           "documents that you trust. Costs a little accuracy (docs/results.md)")
             .Range(1, 64)
             .Unit("documents")
             .Interfaces(kCommandLine | kPython)
             .Identity(InIdentity::kUnlessDefault),
         ExtractRow::Name("fuse", &ExtractOptions::fuse, FuseModeNames(),
                          "Records with several documents. values: read each document separately "
                          "and take the most likely value; tokens: generate every value together, "
                          "token by token")
             .Identity(InIdentity::kUnlessDefault),
         ExtractRow::Flag("gaps", &ExtractOptions::gaps,
                          "0: isolated values leave no position gaps for each other")
             .Elsewhere("false: isolated values leave no position gaps for each other")
             .Called("--gap")
             .Style(CommandStyle::kZeroOrOne)
             .Identity(),
         ExtractRow::Flag("copy", &ExtractOptions::copy,
                          "Restrict texts, numbers and dates to verbatim spans of the document, or "
                          "null (default)")
             .Elsewhere(
                 "Restrict texts, numbers and dates to verbatim spans of the document, or null")
             .Style(CommandStyle::kYesOrNo)
             .Identity(),
         ExtractRow::Number("min_confidence", &ExtractOptions::min_confidence,
                            "Replace values with a lower confidence by null; the row says so "
                            "(default: 0.05 if the model's confidence is calibrated, else 0)")
             .Range(0, 1)
             .Identity(),
         ExtractRow::Whole("max_tokens", &ExtractOptions::max_tokens,
                           "Maximum tokens of a value whose attribute has no limit; 0: by its type")
             .Range(0, 4096)
             .Unit("tokens")
             .Limit(ServerLimit::kTokens)
             .Alias("max_new")
             .Identity(),
         ExtractRow::Flag("flat", &ExtractOptions::flat,
                          "A field for every attribute instead of `values`, as tables have")
             .Interfaces(kHttp | kPython)});
    return rows;
  }();
  return table;
}

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
      .Interfaces(kCommandLine | kPython);
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
           .Interfaces(kCommandLine | kPython)
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
           .Interfaces(kCommandLine | kPython)
           .CountsIf(OfExamples),
       RagRow::Whole("examples_per_expert", &RagOptions::examples_per_expert,
                     "How many examples each expert reads")
           .From(1)
           .Unit("examples")
           .Interfaces(kCommandLine | kPython)
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
       RagRow::Name(
           "switch", [](RagOptions & o) -> auto& { return o.panel.switching; }, SwitchRuleNames(),
           "Where another expert may go on with the answer: between words, numbers, dates and "
           "names (word), or at any token as in the paper (token)")
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
           .Interfaces(kCommandLine | kPython)
           .CountsIf(IsKvConcat),
       RagRow::Number("ape_scale", &RagOptions::ape_scale,
                      "kv-concat: the log-sum-exp of these scores is multiplied by it")
           .Range(0.1, 2)
           .Interfaces(kCommandLine | kPython)
           .CountsIf(IsKvConcat)});
}

void AddAnswers(OptionTable<RagOptions>& rows) {
  AddGroup<RagOptions>(
      rows, "Answers",
      {RagRow::Flag("copy", &RagOptions::copy,
                    "The answer is a verbatim span of one of the documents, or null (default: if "
                    "the model's card says so)")
           .Style(CommandStyle::kYesOrNo)
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

const OptionTable<TableAskOptions>& TableAskTable() {
  using TableRow = Row<TableAskOptions>;
  static const OptionTable<TableAskOptions> table = [] {
    constexpr unsigned kJobInterfaces = kCommandLine | kPython;
    const auto filters = [](const TableAskOptions& o) { return o.op == TableOperator::kFilter; };
    OptionTable<TableAskOptions> rows;
    AddGroup<TableAskOptions>(
        rows, "Prompt",
        {TableRow::Texts("columns", &TableAskOptions::columns,
                         "Columns that stand before the prompt, each on a line with its name, "
                         "separated by commas; only these may be reordered")
             .Delimiter(',')
             .Interfaces(kJobInterfaces)
             .Identity(),
         TableRow::Name("order", &TableAskOptions::order, TableOrderNames(),
                        "given: columns and rows as they are; auto: so that prompts share most "
                        "(rows come out in the input's order)")
             .Interfaces(kJobInterfaces)
             .Identity()});
    AddGroup<TableAskOptions>(
        rows, "Answers",
        {TableRow::Texts("labels", &TableAskOptions::labels,
                         "map, group: the answer is one of these, separated by commas. rank: "
                         "numbers, whose expected value is the score")
             .Called("--choices,--labels")
             .Delimiter(',')
             .Interfaces(kJobInterfaces)
             .Identity(),
         TableRow::Number("threshold", &TableAskOptions::threshold,
                          "filter: rows are kept from this probability of the statement on")
             .Range(0, 1)
             .Interfaces(kJobInterfaces)
             .CountsIf(filters),
         TableRow::Number("recall", &TableAskOptions::recall,
                          "filter, with --large: this share of the rows that it is true of is "
                          "kept, or more, with --confidence; 0: not promised")
             .Range(0, 1)
             .Interfaces(kJobInterfaces),
         TableRow::Number("precision", &TableAskOptions::precision,
                          "filter, with --large: this share of the kept rows is right, or more, "
                          "with --confidence; 0: not promised")
             .Called("--min-precision")
             .Range(0, 1)
             .Interfaces(kJobInterfaces),
         TableRow::Number("confidence", &TableAskOptions::confidence,
                          "filter: that what is promised holds, over draws of the sample")
             .Range(0.5, 0.9999)
             .Interfaces(kJobInterfaces),
         TableRow::Whole("sample", &TableAskOptions::sample,
                         "filter: rows that the large model labels for the promise")
             .From(1)
             .Unit("rows")
             .Interfaces(kJobInterfaces),
         TableRow::Text("label", &TableAskOptions::label,
                        "filter, and map with --choices: the column that says what is right of a "
                        "random sample of the rows and is empty in others. Rows get `calibrated` "
                        "by it, which --threshold is of; with --recall or --precision it is the "
                        "sample")
             .Placeholder("COLUMN")
             .Interfaces(kJobInterfaces),
         TableRow::Flag("pairwise", &TableAskOptions::pairwise,
                        "rank: compare rows, two in a prompt and in both orders, and sort by that; "
                        "about n log2(n) pairs for n rows")
             .Interfaces(kJobInterfaces),
         TableRow::Whole("top", &TableAskOptions::top, "rank: only the first N rows; 0: all")
             .From(0)
             .Unit("rows")
             .Interfaces(kJobInterfaces)});
    AddGroup<TableAskOptions>(
        rows, "Output",
        {TableRow::Flag("all", &TableAskOptions::all, "filter: write every row, with `keep`")
             .Interfaces(kJobInterfaces)
             .CountsIf(filters)});
    return rows;
  }();
  return table;
}

}  // namespace banyan
