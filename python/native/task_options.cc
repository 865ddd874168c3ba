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
  reader.ReadTable(Bind(options));
  reader.Read("questions", options.question_list);
  reader.Read("questions_text", options.questions);
  if (!options.questions.empty()) options.questions_name = "questions";
  return options;
}

ExtractOptions ExtractOptionsOf(OptionReader& reader) {
  ExtractOptions options;
  reader.ReadTable(Bind(options));
  options.schema_name = "schema";
  return options;
}

RagOptions RagOptionsOf(OptionReader& reader) {
  RagOptions options;
  reader.ReadTable(Bind(options));
  const nb::object index = reader.Find("index");
  if (index.is_valid()) options.index = IndexOf(index);
  const nb::object encoder = reader.Find("encoder"), reranker = reader.Find("reranker");
  if (encoder.is_valid()) options.encoder = NamedEncoderOf("encoder", encoder);
  if (reranker.is_valid()) options.reranker = NamedEncoderOf("reranker", reranker);
  std::vector<std::pair<std::string, std::string>> examples;
  reader.Read("examples", examples);
  for (auto& [question, answer] : examples) options.examples.push_back({question, answer});
  if (!examples.empty() && options.experts != ExpertsAre::kExamples) {
    throw Error(ErrorKind::kUsage, "examples: expected with experts='examples'");
  }
  return options;
}

}  // namespace banyan::python
