// A schema proposed from sample documents: candidates are labels of the documents and names of a
// lexicon, the model looks for a value of each, and those that several documents have are kept.
#include "banyan/extract.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "propose/candidates.h"
#include "propose/infer_type.h"
#include "tasks/extract/extract_task.h"
#include "tasks/job/job.h"
#include "tasks/job/record_window.h"
#include "values/value_text.h"

namespace banyan {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Tokens of the context for each candidate name: a name takes about four in the instruction.
constexpr int kContextOfName = 24;

// Why a row cannot be a sample; empty: it can.
std::string Unfit(const InputRow& row, std::set<std::string>& texts) {
  if (row.problem) return row.problem->message;
  const auto text = row.value.find("text");
  if (text == row.value.end() || !text->is_string()) return "it has no field 'text'";
  const std::string plain = PlainText(text->get<std::string>());
  if (FoldedWords(plain).empty()) return "it has no words";
  if (!texts.insert(plain).second) return "its text came before";
  return "";
}

// The first documents of the input, `most` at most: with words, and different from one another.
// `job.notice` gets what was left out and why. Throws kUsage when there are fewer than `least`.
std::vector<InputRow> ReadSamples(const JobOptions& job, size_t least, size_t most) {
  InputReader input(InputOf(OfDocuments(job)));
  std::vector<InputRow> samples;
  std::set<std::string> texts;
  InputRow row;
  while (samples.size() < most && input.Next(row)) {
    const std::string reason = Unfit(row, texts);
    if (reason.empty()) {
      samples.push_back(std::move(row));
    } else if (job.notice) {
      const std::string line = row.line > 0 ? fmt::format(" line {}", row.line) : "";
      job.notice(fmt::format("extract schema: {}{}: left out: {}", row.file, line, reason));
    }
    row = {};
  }
  if (samples.size() < least) {
    Throw(ErrorKind::kUsage,
          "extract schema: expected at least {} different documents with words, found {}", least,
          samples.size());
  }
  return samples;
}

// The rows of `banyan extract`, in the order of the samples. Throws as RunExtract; a document that
// fails has an `error` in its row.
std::vector<OrderedJson> ExtractSamples(std::shared_ptr<Model> model,
                                        const EngineOptions& engine_options,
                                        const ExtractOptions& extract,
                                        const std::vector<InputRow>& samples) {
  ExtractTask task(model, extract);
  Engine engine(model, engine_options);
  OneRowEach made(samples.size());
  RecordWindow window([&](PromptSegment& prompt) { return engine.TrySubmit(prompt); }, made);
  for (size_t i = 0; i < samples.size(); ++i) window.Add(i, task, *model, samples[i]);
  window.RunToEnd(engine);
  std::vector<OrderedJson> rows;
  for (OutputRow& row : made.rows) rows.push_back(std::move(row.fields));
  return rows;
}

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

// Values of the candidates [begin, end) in all samples; values found behind labels stay. Returns an
// error
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

constexpr size_t kExampleWidth = 28;  // characters
constexpr size_t kExamplesShown = 3;  // different ones

size_t WidthOf(const std::string& text) { return static_cast<size_t>(CountCharacters(text)); }

// The first `width` characters.
std::string Cut(const std::string& text, size_t width) {
  if (WidthOf(text) <= width) return text;
  size_t byte = 0;
  for (size_t characters = 0; byte < text.size(); ++byte) {
    if (BeginsCharacter(text[byte]) && ++characters == width) break;
  }
  return text.substr(0, byte) + "…";
}

std::string Padded(const std::string& text, size_t width) {
  return text + std::string(width - std::min(width, WidthOf(text)), ' ');
}

std::string SourceOf(const ProposedAttribute& attribute) {
  if (attribute.label_documents == 0) return "";
  return fmt::format("label in {}", attribute.label_documents);
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

std::string SchemaProposal::ToText() const {
  std::vector<std::vector<std::string>> rows = {
      {"attribute", "type", "documents", "sure", "", "examples"}};
  for (const ProposedAttribute& attribute : attributes) {
    std::vector<std::string> examples;
    for (const ProposedAttribute::Example& example : attribute.examples) {
      const std::string shown = Cut(example.value, kExampleWidth);
      if (examples.size() == kExamplesShown) break;
      if (std::ranges::find(examples, shown) == examples.end()) examples.push_back(shown);
    }
    rows.push_back({attribute.name, Cut(attribute.type, 32),
                    fmt::format("{} of {}", attribute.documents, documents),
                    fmt::format("{:.2f}", attribute.confidence), SourceOf(attribute),
                    fmt::format("{}", fmt::join(examples, " | "))});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const std::vector<std::string>& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], WidthOf(row[c]));
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t c = 0; c + 1 < row.size(); ++c) {
      if (widths[c] > 0) line += Padded(row[c], widths[c]) + "  ";
    }
    text += line + row.back() + "\n";
  }
  return text;
}

std::string SchemaProposal::ToJson() const {
  OrderedJson list = OrderedJson::array();
  for (const ProposedAttribute& attribute : attributes) {
    OrderedJson examples = OrderedJson::array();
    for (const ProposedAttribute::Example& example : attribute.examples) {
      examples.push_back({{"value", example.value}, {"document", example.document}});
    }
    list.push_back({{"name", attribute.name},
                    {"type", attribute.type},
                    {"documents", attribute.documents},
                    {"coverage", std::round(1e4 * attribute.documents / documents) / 1e4},
                    {"confidence", std::round(1e4 * attribute.confidence) / 1e4},
                    {"label_documents", attribute.label_documents},
                    {"values", std::move(examples)}});
  }
  return DumpJson(OrderedJson{{"documents", documents},
                              {"kinds", kinds},
                              {"attributes", std::move(list)},
                              {"schema", OrderedJson::parse(schema)}});
}

}  // namespace banyan
