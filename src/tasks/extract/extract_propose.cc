// A schema proposed from sample documents: candidates are labels of the documents and names of a
// lexicon, the model looks for a value of each, and those that several documents have are kept.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "propose/candidates.h"
#include "propose/infer_type.h"
#include "tasks/extract/extract_samples.h"
#include "tasks/extract/extract_task.h"
#include "values/value_text.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// A name takes about four tokens of the instruction, and so much of the context it may have.
constexpr int kContextOfName = 24;

std::string TextOf(const InputRow& row) { return row.value.at("text").get<std::string>(); }

std::vector<const LexiconKind*> KindsFor(const ProposeOptions& options,
                                         const std::vector<std::string>& texts,
                                         const std::vector<std::vector<FoundLabel>>& labels) {
  if (!options.kind.empty()) {
    const LexiconKind* kind = FindLexiconKind(options.kind);
    if (kind != nullptr) return {kind};
    Throw(ErrorKind::kUsage, "extract schema: --kind: expected one of {}; found '{}'",
          fmt::join(SchemaKinds(), ", "), options.kind);
  }
  std::vector<std::vector<std::string>> keys(labels.size());
  for (size_t d = 0; d < labels.size(); ++d) {
    std::set<std::string> different;
    for (const FoundLabel& label : labels[d]) different.insert(LabelKey(label.name));
    keys[d].assign(different.begin(), different.end());
  }
  return KindsOf(texts, keys);
}

// The value of `name` in a row of `banyan extract`, where it stands in the text.
std::optional<SampleValue> ValueIn(const OrderedJson& row, const std::string& name) {
  if (!row.contains("values") || !row.at("values").contains(name)) return std::nullopt;
  const OrderedJson& value = row.at("values").at(name);
  const OrderedJson span = row.at("spans").value(name, OrderedJson());
  const OrderedJson& confidence = row.at("confidence").at(name);
  if (!value.is_string() || !span.is_array() || !confidence.is_number()) return std::nullopt;
  SampleValue found;
  found.text = value.get<std::string>();
  found.confidence = confidence.get<double>();
  found.place = {span.at(0).get<std::int64_t>(), span.at(1).get<std::int64_t>()};
  if (FoldedWords(found.text).empty()) return std::nullopt;
  return found;
}

struct ProposeRun {
  std::shared_ptr<Model> model;
  const EngineOptions& engine_options;
  const std::vector<InputRow>& samples;
};

// Values of the candidates [begin, end) in all samples; those behind labels stay. Returns the error
// when no document could be read.
std::string FindValuesOf(const ProposeRun& run, std::vector<AttributeCandidate>& candidates,
                         size_t begin, size_t end) {
  OrderedJson attributes = OrderedJson::array();
  for (size_t i = begin; i < end; ++i) attributes.push_back({{"name", candidates[i].name}});
  ExtractOptions extract;
  extract.schema = OrderedJson{{"attributes", attributes}}.dump();
  extract.schema_name = "candidates";
  const std::vector<OrderedJson> rows =
      ExtractSamples(run.model, run.engine_options, extract, run.samples);
  std::string error;
  size_t failed = 0;
  for (size_t d = 0; d < rows.size(); ++d) {
    if (rows[d].contains("error")) {
      error = rows[d].at("error").at("message").get<std::string>();
      ++failed;
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      std::optional<SampleValue>& value = candidates[i].values[d];
      if (!value) value = ValueIn(rows[d], candidates[i].name);
    }
  }
  return failed == rows.size() ? error : "";
}

// Asks the model for all candidates, for fewer at a time where the context holds no more.
void FindValues(const ProposeRun& run, std::vector<AttributeCandidate>& candidates) {
  auto together = static_cast<size_t>(std::max(8, run.model->context_length() / kContextOfName));
  size_t begin = 0;
  while (begin < candidates.size()) {
    const size_t end = std::min(candidates.size(), begin + together);
    const std::string error = FindValuesOf(run, candidates, begin, end);
    if (error.empty()) {
      begin = end;
    } else if (together > 1) {
      together /= 2;
    } else {
      Throw(ErrorKind::kInput, "extract schema: no document could be read: {}", error);
    }
  }
}

std::vector<ProposedAttribute::Example> ExamplesOf(const AttributeCandidate& attribute,
                                                   const std::vector<InputRow>& samples) {
  std::vector<size_t> documents;
  for (size_t d = 0; d < samples.size(); ++d) {
    if (attribute.values[d]) documents.push_back(d);
  }
  std::ranges::stable_sort(documents, [&](size_t a, size_t b) {
    return attribute.values[a]->confidence > attribute.values[b]->confidence;
  });
  std::vector<ProposedAttribute::Example> examples;
  for (const size_t d : documents) {
    examples.push_back({attribute.values[d]->text, TextOrJson(samples[d].value.at("id"))});
  }
  return examples;
}

ProposedAttribute Describe(const AttributeCandidate& attribute, const OrderedJson& type,
                           const std::vector<InputRow>& samples) {
  ProposedAttribute proposed;
  proposed.name = attribute.name;
  proposed.type = TypeWords(type);
  proposed.label_documents = static_cast<int>(attribute.label_documents);
  proposed.documents = static_cast<int>(attribute.coverage());
  for (const std::optional<SampleValue>& value : attribute.values) {
    if (value) proposed.confidence += value->confidence / proposed.documents;
  }
  proposed.examples = ExamplesOf(attribute, samples);
  return proposed;
}

void CheckPropose(const Model& model, const ProposeOptions& options) {
  if (model.text() == nullptr) {
    Throw(ErrorKind::kUnsupported, "extract schema: the model's files have no tokenizer");
  }
  if (options.documents < kLeastSamples || options.documents > kMostSamples) {
    Throw(ErrorKind::kUsage, "extract schema: --documents: expected {} to {}, found {}",
          kLeastSamples, kMostSamples, options.documents);
  }
}

}  // namespace

std::vector<std::string> SchemaKinds() {
  std::vector<std::string> names;
  for (const LexiconKind& kind : LexiconKinds()) names.emplace_back(kind.name);
  return names;
}

SchemaProposal ProposeSchema(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                             const ProposeOptions& options, const JobOptions& job) {
  CheckPropose(*model, options);
  const std::vector<InputRow> samples =
      ReadSamples(job, kLeastSamples, static_cast<size_t>(options.documents));
  std::vector<std::string> texts;
  CandidateRequest request;
  for (const InputRow& sample : samples) {
    texts.push_back(TextOf(sample));
    request.labels.push_back(FindLabels(texts.back()));
  }
  request.kinds = KindsFor(options, texts, request.labels);
  request.names = options.names;
  request.least_documents = static_cast<size_t>(options.least_documents);
  std::vector<AttributeCandidate> candidates = MakeCandidates(request);
  FindValues({model, engine_options, samples}, candidates);
  ChoiceRules rules;
  rules.least_documents = request.least_documents;
  rules.most_attributes = static_cast<size_t>(options.attributes);
  const std::vector<AttributeCandidate> chosen = ChooseAttributes(std::move(candidates), rules);
  if (chosen.empty()) {
    Throw(ErrorKind::kInput,
          "extract schema: no attribute has sure values in {} of the {} documents; give names "
          "(--names) or another --kind than {}",
          options.least_documents, samples.size(), request.kinds.front()->name);
  }
  SchemaProposal proposal;
  proposal.documents = static_cast<int>(samples.size());
  for (const LexiconKind* kind : request.kinds) proposal.kinds.emplace_back(kind->name);
  OrderedJson attributes = OrderedJson::array();
  for (const AttributeCandidate& attribute : chosen) {
    std::vector<std::string> values;
    for (const std::optional<SampleValue>& value : attribute.values) {
      if (value) values.push_back(value->text);
    }
    const OrderedJson type = InferType(values, attribute.expected);
    OrderedJson member = {{"name", attribute.name}};
    member.update(type);
    attributes.push_back(std::move(member));
    proposal.attributes.push_back(Describe(attribute, type, samples));
  }
  const OrderedJson category = {{"attributes", std::move(attributes)}};
  proposal.schema =
      (options.category.empty() ? category
                                : OrderedJson{{"categories", {{options.category, category}}}})
          .dump(2);
  return proposal;
}

}  // namespace banyan
