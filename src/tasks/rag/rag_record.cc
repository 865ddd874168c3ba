// Documents of a question: given, from the index, or few-shot examples; with their relevance.
#include "tasks/rag/rag_record.h"

#include <algorithm>
#include <functional>

#include "base/byte_source.h"
#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/input/field_names.h"
#include "tasks/input/input.h"
#include "text/unicode.h"

namespace banyan {
namespace {

std::string TextOf(const Json& object, const char* name, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string() || IsBlank(it->get_ref<const std::string&>())) {
    Throw(ErrorKind::kInput, "{}: expected a text '{}' that is not empty{}", where, name,
          it == object.end() ? DidYouMeanField(object, name) : "");
  }
  return it->get<std::string>();
}

// The text may be blank.
RagDocument ReadDocument(const Json& value, size_t number) {
  const std::string where = fmt::format("document {}", number);
  RagDocument document;
  document.id = number;
  if (value.is_string()) {
    document.text = value.get<std::string>();
    return document;
  }
  if (!value.is_object()) {
    Throw(ErrorKind::kInput, "{}: expected an object, found {}", where, TypeName(value));
  }
  const auto text = value.find("text");
  if (text == value.end() || !text->is_string()) {
    Throw(ErrorKind::kInput, "{}: expected a text 'text'{}", where,
          text == value.end() ? DidYouMeanField(value, "text") : "");
  }
  document.text = text->get<std::string>();
  const Json id = value.value("id", Json());
  if (id.is_string() || IsNumber(id)) document.id = id;
  const Json title = value.value("title", Json());
  if (title.is_string()) document.title = title.get<std::string>();
  const auto score = value.find("score");
  if (score != value.end() && !score->is_null()) {
    if (!score->is_number()) {
      Throw(ErrorKind::kInput, "{}: 'score': expected a number, found {}", where, TypeName(*score));
    }
    document.score = score->get<double>();
  }
  return document;
}

void Apply(const Judgement& judgement, RagDocument& document) {
  document.relevance = judgement.relevance;
  document.score = judgement.score;
  document.logit = judgement.logit;
}

std::vector<RagDocument> FromIndex(const DocumentIndex& index, const Retriever& retriever,
                                   const std::string& question) {
  std::vector<RagDocument> documents;
  for (const Retriever::Found& found : retriever.Retrieve(question)) {
    const Passage& passage = index.at(found.passage);
    RagDocument& document = documents.emplace_back();
    document.id = passage.id;
    document.title = passage.title;
    document.text = passage.text;
    document.source = passage.source;
    document.begin = passage.begin;
    document.passage = found.passage;
    Apply(found.judgement, document);
  }
  if (documents.empty()) {
    Throw(ErrorKind::kInput, "no document of the index shares a word with the question");
  }
  return documents;
}

void UseScores(std::vector<RagDocument>& documents) {
  for (RagDocument& document : documents) {
    const std::string where = fmt::format("document {}", DumpJson(document.id));
    if (!document.score) Throw(ErrorKind::kInput, "{}: expected a 'score', found none", where);
    if (!(*document.score > 0.0 && *document.score <= 1.0)) {
      Throw(ErrorKind::kInput, "{}: 'score' is {}: expected more than 0, at most 1", where,
            *document.score);
    }
    document.relevance = *document.score;
  }
}

void SetEqual(std::vector<RagDocument>& documents) {
  for (RagDocument& document : documents) document.relevance = 0.5;
}

// Of documents that came with the question.
void SetRelevance(const RagOptions& options, const Retriever& retriever, RagRecord& record) {
  if (options.relevance == RelevanceFrom::kEqual) return SetEqual(record.documents);
  const bool all_scored = std::ranges::all_of(
      record.documents, [](const RagDocument& document) { return document.score.has_value(); });
  const bool by_itself =
      options.relevance == RelevanceFrom::kAuto && all_scored && !options.reranker;
  if (options.relevance == RelevanceFrom::kGiven || by_itself) return UseScores(record.documents);
  std::vector<std::string> texts;
  for (const RagDocument& document : record.documents) texts.push_back(document.Shown());
  const std::vector<Judgement> judged = retriever.Judge(record.question, texts);
  for (size_t i = 0; i < judged.size(); ++i) Apply(judged[i], record.documents[i]);
}

// A document without text is left out; it does not fail the question.
void ReadDocuments(const Json& values, RagRecord& record) {
  if (!values.is_array() || values.empty()) {
    Throw(ErrorKind::kInput, "'documents': expected a list that is not empty");
  }
  for (size_t i = 0; i < values.size(); ++i) {
    RagDocument document = ReadDocument(values[i], i);
    if (IsBlank(document.text)) {
      record.empty.push_back(std::move(document.id));
    } else {
      record.documents.push_back(std::move(document));
    }
  }
  if (record.documents.empty()) {
    Throw(ErrorKind::kInput, "'documents': {} of them, and all are empty", values.size());
  }
}

void TakeFromIndex(const RagOptions& options, const Retriever& retriever, RagRecord& record) {
  if (!options.index) {
    Throw(ErrorKind::kInput, "expected the field 'documents', found none, and no index is given");
  }
  if (options.relevance == RelevanceFrom::kGiven) {
    Throw(ErrorKind::kInput, "--relevance given: passages of an index have no scores of their own");
  }
  record.documents = FromIndex(*options.index, retriever, record.question);
  if (options.relevance == RelevanceFrom::kEqual) SetEqual(record.documents);
}

struct ScoredExample {
  FewShotExample example;
  std::optional<double> score;
};

std::string TextIn(const Json& value, const char* name, const std::string& where) {
  const auto it = value.find(name);
  if (it == value.end() || !it->is_string() || it->get_ref<const std::string&>().empty()) {
    Throw(ErrorKind::kInput, "{}: expected a text '{}' that is not empty", where, name);
  }
  return it->get<std::string>();
}

ScoredExample ReadExample(const Json& value, const std::string& where) {
  if (!value.is_object()) {
    Throw(ErrorKind::kInput, "{}: expected an object, found {}", where, TypeName(value));
  }
  ScoredExample read{{TextIn(value, "question", where), TextIn(value, "answer", where)}, {}};
  const auto score = value.find("score");
  if (score == value.end() || score->is_null()) return read;
  if (!score->is_number()) {
    Throw(ErrorKind::kInput, "{}: 'score': expected a number, found {}", where, TypeName(*score));
  }
  read.score = score->get<double>();
  return read;
}

RagDocument Block(const std::vector<ScoredExample>& examples, size_t number) {
  RagDocument block;
  block.id = number;
  block.score = examples.front().score;
  for (const auto& [example, score] : examples) {
    if (!block.text.empty()) block.text += "\n\n";
    block.text += "Question: " + example.question + "\nAnswer: " + example.answer;
    if (score != block.score) block.score.reset();
  }
  return block;
}

// The blocks of few-shot examples, as documents.
std::vector<RagDocument> ExampleBlocks(const Json& value, const RagOptions& options) {
  std::vector<RagDocument> blocks;
  std::vector<ScoredExample> together;
  const auto finish = [&] {
    if (!together.empty()) blocks.push_back(Block(together, blocks.size() + 1));
    together.clear();
  };
  const auto add = [&](ScoredExample example) {
    together.push_back(std::move(example));
    if (together.size() == static_cast<size_t>(options.examples_per_expert)) finish();
  };
  if (value.is_null()) {
    for (const FewShotExample& example : options.examples) add({example, {}});
    finish();
    if (!blocks.empty()) return blocks;
    Throw(ErrorKind::kInput,
          "expected the field 'examples', found none, and --examples gives none");
  }
  if (!value.is_array() || value.empty()) {
    Throw(ErrorKind::kInput, "'examples': expected a list that is not empty");
  }
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string where = fmt::format("example {}", i + 1);
    if (!value[i].is_array()) {
      add(ReadExample(value[i], where));
      continue;
    }
    finish();
    for (const Json& one : value[i]) together.push_back(ReadExample(one, where));
    if (together.empty()) Throw(ErrorKind::kInput, "{}: the block is empty", where);
    finish();
  }
  finish();
  return blocks;
}

}  // namespace

std::vector<size_t> RagRecord::AllDocuments(std::optional<size_t> left_out) const {
  std::vector<size_t> all;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (i != left_out) all.push_back(i);
  }
  return all;
}

std::vector<size_t> RagRecord::ByRelevance(size_t most) const {
  std::vector<size_t> order = AllDocuments();
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t i) { return documents[i].relevance; });
  order.resize(std::min(order.size(), most));
  return order;
}

size_t RagRecord::MostRelevant() const {
  const auto best =
      std::ranges::max_element(documents, {}, [](const auto& d) { return d.relevance; });
  return static_cast<size_t>(best - documents.begin());
}

size_t RagRecord::KeepWithin(size_t bytes) {
  std::vector<bool> stays(documents.size(), false);
  size_t sum = 0;
  for (const size_t i : ByRelevance(documents.size())) {
    const size_t size = documents[i].text.size();
    if (sum > 0 && sum + size > bytes) break;
    sum += size;
    stays[i] = true;
  }
  std::vector<RagDocument> kept;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (stays[i]) {
      kept.push_back(std::move(documents[i]));
    } else {
      dropped.push_back(std::move(documents[i].id));
    }
  }
  documents = std::move(kept);
  return sum;
}

void RagRecord::SayDropped(const std::string& reason) {
  dropped_reason += (dropped_reason.empty() ? "" : "; ") + reason;
}

std::vector<size_t> RagRecord::Together(int most, std::optional<size_t> left_out) const {
  std::vector<size_t> together = ByRelevance(static_cast<size_t>(most));
  if (left_out) std::erase(together, *left_out);
  if (together.size() < 2) together.clear();
  return together;
}

std::string RagRecord::Joined(const std::vector<size_t>& wanted,
                              const std::function<std::string(size_t document)>& text) const {
  std::string joined;
  for (const size_t i : ByRelevance(documents.size())) {
    if (std::ranges::find(wanted, i) == wanted.end()) continue;
    joined += joined.empty() ? text(i) : "\n\n" + text(i);
  }
  return joined;
}

RagRecord ReadRagRecord(const Json& row, const RagOptions& options, const Retriever& retriever) {
  RagRecord record;
  record.id = IdOf(row);
  record.question = TextOf(row, "question", "the record");
  const bool of_examples = options.experts == ExpertsAre::kExamples;
  const char* experts = of_examples ? "examples" : "documents";
  for (const auto& [name, field] : row.items()) {
    if (name != "id" && name != "question" && name != experts) record.carried[name] = field;
  }
  const auto given = row.find(experts);
  const bool there = given != row.end() && !given->is_null();
  if (of_examples) {
    record.documents = ExampleBlocks(there ? *given : Json(), options);
    SetRelevance(options, retriever, record);
  } else if (there) {
    ReadDocuments(*given, record);
    SetRelevance(options, retriever, record);
  } else {
    TakeFromIndex(options, retriever, record);
  }
  std::erase_if(record.documents, [&](const RagDocument& document) {
    const bool hopeless = document.relevance < options.min_relevance;
    if (hopeless) record.dropped.push_back(document.id);
    return hopeless;
  });
  if (!record.dropped.empty()) {
    record.SayDropped(fmt::format("a relevance below {}", options.min_relevance));
  }
  if (record.documents.empty()) {
    Throw(ErrorKind::kInput, "no document has a relevance of {} or more", options.min_relevance);
  }
  return record;
}

std::vector<FewShotExample> ReadExamples(const std::string& path) {
  constexpr size_t kMaxBytes = 64u << 20;
  LineReader reader(OpenByteSource(path), kMaxBytes);
  std::vector<FewShotExample> examples;
  for (std::string line; reader.Next(line);) {
    if (line.find_first_not_of(" \t\r\n") == std::string::npos) continue;
    const std::string where = fmt::format("{}, line {}", path, reader.number());
    if (reader.too_long() || !IsValidUtf8(line)) {
      Throw(ErrorKind::kInput, "{}: too long, or not valid UTF-8", where);
    }
    Json row;
    try {
      row = ParseJsonRow(line);
    } catch (const Error& e) {
      Throw(ErrorKind::kInput, "{}: {}", where, e.what());
    }
    examples.push_back(ReadExample(row, where).example);
  }
  if (examples.empty()) Throw(ErrorKind::kInput, "{}: no example in it", path);
  return examples;
}

}  // namespace banyan
