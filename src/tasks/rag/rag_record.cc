#include "tasks/rag/rag_record.h"

#include <algorithm>

#include "base/characters.h"
#include "base/error.h"
#include "base/json.h"
#include "tasks/input/input.h"
#include "tasks/rag/rag_examples.h"

namespace banyan {
namespace {

std::string TextOf(const Json& object, const char* name, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string() || IsBlank(it->get_ref<const std::string&>())) {
    Throw(ErrorKind::kInput, "{}: expected a text '{}' that is not empty", where, name);
  }
  return it->get<std::string>();
}

// Its text may be blank.
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
    Throw(ErrorKind::kInput, "{}: expected a text 'text'", where);
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

// A document without text says nothing, and does not fail the question.
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

}  // namespace

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
  if (record.documents.empty()) {
    Throw(ErrorKind::kInput, "no document has a relevance of {} or more", options.min_relevance);
  }
  return record;
}

}  // namespace banyan
