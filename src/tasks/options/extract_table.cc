#include "tasks/options/shared_rows.h"

namespace banyan {

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
             .Doors(kCommandLine | kPython)
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
                            "Replace values with a lower confidence by null; the row says so")
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
             .Doors(kHttp | kPython)});
    return rows;
  }();
  return table;
}

}  // namespace banyan
