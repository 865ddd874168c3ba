// The options of ask, extract and rag.
#include "bound.h"
#include "options.h"

namespace banyan::python {
namespace {

// An index that is open, or its folder.
std::shared_ptr<const DocumentIndex> IndexOf(const nb::object& value) {
  BoundIndex* open = nullptr;
  if (nb::try_cast<BoundIndex*>(value, open) && open != nullptr) return open->index;
  return DocumentIndex::Open(nb::cast<std::string>(nb::str(value)));
}

NamedEncoder NamedEncoderOf(const char* name, const nb::object& value) {
  BoundEncoder* loaded = nullptr;
  if (!nb::try_cast<BoundEncoder*>(value, loaded) || loaded == nullptr) {
    throw Error(ErrorKind::kUsage, std::string(name) + ": expected an Encoder");
  }
  return NameEncoder(loaded->encoder.get(name), loaded->name);
}

}  // namespace

AskOptions AskOptionsOf(OptionReader& reader) {
  AskOptions options;
  reader.Read("instruction", options.instruction);
  reader.Read("template", options.prompt_template);
  reader.Read("few_shot", options.few_shot);
  reader.ReadName("chat", options.chat, ChatNames());
  reader.Read("thinking", options.thinking);
  reader.Read("questions", options.question_list);
  reader.Read("questions_text", options.questions);
  if (!options.questions.empty()) options.questions_name = "questions";
  reader.Read("max_new", options.max_new);
  reader.Read("stop", options.stop);
  reader.Read("regex", options.regex);
  reader.Read("json_schema", options.json_schema);
  if (reader.Find("copy").is_valid()) reader.Read("copy", options.copy.emplace());
  reader.Read("min_confidence", options.min_confidence);
  ReadSampling(reader, options.sampling);
  reader.Read("samples", options.samples);
  reader.Read("vote", options.vote);
  reader.ReadName("choices", options.choices, ChoiceModeNames());
  reader.ReadName("choice_score", options.choice_score, ChoiceScoreNames());
  reader.ReadName("too_long", options.too_long, TooLongNames());
  reader.Read("part_tokens", options.part_tokens);
  reader.Read("reduce", options.reduce);
  reader.Read("logprobs", options.logprobs);
  reader.Read("top_logprobs", options.top_logprobs);
  reader.Read("token_ids", options.token_ids);
  AtLeast("max_new", options.max_new, 1);
  AtLeast("part_tokens", options.part_tokens, 0);
  AtLeast("samples", options.samples, 1);
  AtLeast("top_logprobs", options.top_logprobs, 0);
  return options;
}

ExtractOptions ExtractOptionsOf(OptionReader& reader) {
  ExtractOptions options;
  reader.Read("schema", options.schema);
  options.schema_name = "schema";
  reader.Read("category", options.category);
  reader.Read("instruction", options.instruction);
  reader.Read("template", options.prompt_template);
  reader.Read("few_shot", options.few_shot);
  reader.ReadName("chat", options.chat, ChatNames());
  reader.ReadName("values", options.values, ValueModeNames());
  reader.Read("stack", options.stack);
  AtLeast("stack", options.stack, 1);
  reader.ReadName("fuse", options.fuse, FuseModeNames());
  reader.Read("gaps", options.gaps);
  reader.Read("max_tokens", options.max_tokens);
  reader.ReadName("too_long", options.too_long, TooLongNames());
  reader.Read("copy", options.copy);
  reader.Read("min_confidence", options.min_confidence);
  reader.Read("flat", options.flat);
  return options;
}

RagOptions RagOptionsOf(OptionReader& reader) {
  RagOptions options;
  reader.ReadText("method",
                  [&](const std::string& name) { options.method = ParseRagMethod(name); });
  reader.ReadText("relevance",
                  [&](const std::string& name) { options.relevance = ParseRelevanceFrom(name); });
  reader.Read("min_relevance", options.min_relevance);
  reader.ReadText("candidates", [&](const std::string& name) {
    if (name == "auto") return;
    options.candidates = NamedValue(name, "candidates", CandidateNames());
  });
  reader.Read("candidate_count", options.candidate_count);
  const nb::object index = reader.Find("index");
  if (index.is_valid()) options.index = IndexOf(index);
  const nb::object encoder = reader.Find("encoder"), reranker = reader.Find("reranker");
  if (encoder.is_valid()) options.encoder = NamedEncoderOf("encoder", encoder);
  if (reranker.is_valid()) options.reranker = NamedEncoderOf("reranker", reranker);
  reader.ReadName("experts", options.experts, ExpertsNames());
  std::vector<std::pair<std::string, std::string>> examples;
  reader.Read("examples", examples);
  for (auto& [question, answer] : examples) options.examples.push_back({question, answer});
  if (!examples.empty() && options.experts != ExpertsAre::kExamples) {
    throw Error(ErrorKind::kUsage, "examples: expected with experts='examples'");
  }
  reader.Read("examples_per_expert", options.examples_per_expert);
  reader.Read("top", options.top);
  if (reader.Find("gamma").is_valid()) options.gamma = 0.0;
  ReadPanel(reader, options.panel);
  if (options.gamma) options.gamma = options.panel.gamma;
  reader.Read("instruction", options.instruction);
  reader.Read("map_instruction", options.map_instruction);
  reader.ReadName("chat", options.chat, ChatNames());
  reader.Read("max_new", options.max_new);
  reader.Read("stop", options.stop);
  reader.ReadName("too_long", options.too_long, TooLongNamesWithoutSplit());
  reader.Read("copy", options.copy);
  reader.Read("verify", options.verify);
  reader.Read("trace", options.trace);
  reader.Read("ape_temperature", options.ape_temperature);
  reader.Read("ape_scale", options.ape_scale);
  AtLeast("max_new", options.max_new, 1);
  AtLeast("top", options.top, 1);
  AtLeast("candidate_count", options.candidate_count, 0);
  AtLeast("examples_per_expert", options.examples_per_expert, 1);
  return options;
}

}  // namespace banyan::python
