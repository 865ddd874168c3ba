#include "tasks/rag_record.h"

#include <algorithm>

#include "base/error.h"
#include "base/json_row.h"
#include "base/spaces.h"
#include "retrieve/bm25.h"
#include "retrieve/relevance.h"
#include "retrieve/words.h"
#include "tasks/ask_record.h"

namespace banyan {
namespace {

std::string TextOf(const Json& object, const char* name, const std::string& where) {
  const auto it = object.find(name);
  if (it == object.end() || !it->is_string() || IsBlank(it->get_ref<const std::string&>())) {
    Throw(ErrorKind::kInput, "{}: expected a text '{}' that is not empty", where, name);
  }
  return it->get<std::string>();
}

RagDocument ReadDocument(const Json& value, size_t number) {
  const std::string where = fmt::format("document {}", number);
  RagDocument document;
  document.id = number;
  if (value.is_string()) {
    if (IsBlank(value.get_ref<const std::string&>())) {
      Throw(ErrorKind::kInput, "{}: the text is empty", where);
    }
    document.text = value.get<std::string>();
    return document;
  }
  if (!value.is_object()) {
    Throw(ErrorKind::kInput, "{}: expected an object, found {}", where, TypeName(value));
  }
  document.text = TextOf(value, "text", where);
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

std::vector<RagDocument> FromIndex(const DocumentIndex& index, const std::string& question,
                                   int top) {
  std::vector<RagDocument> documents;
  for (const FoundPassage& found : index.Search(question, static_cast<size_t>(top))) {
    const Passage& passage = index.at(found.passage);
    RagDocument& document = documents.emplace_back();
    document.id = passage.id;
    document.title = passage.title;
    document.text = passage.text;
    document.source = passage.source;
    document.begin = passage.begin;
    document.score = found.score;
    document.relevance = RelevanceOfBm25(found.score);
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

void UseBm25(const std::string& question, std::vector<RagDocument>& documents) {
  std::vector<std::vector<std::string>> words;
  for (const RagDocument& document : documents) words.push_back(WordsOf(document.Shown()));
  const std::vector<float> scores = Bm25(words, Bm25Options()).Scores(WordsOf(question));
  for (size_t i = 0; i < documents.size(); ++i) {
    documents[i].score = scores[i];
    documents[i].relevance = RelevanceOfBm25(scores[i]);
  }
}

void SetRelevance(RelevanceFrom from, RagRecord& record) {
  if (from == RelevanceFrom::kEqual) {
    for (RagDocument& document : record.documents) document.relevance = 0.5;
    return;
  }
  const bool all_scored = std::ranges::all_of(
      record.documents, [](const RagDocument& document) { return document.score.has_value(); });
  const bool given = from == RelevanceFrom::kGiven || (from == RelevanceFrom::kAuto && all_scored);
  if (given) return UseScores(record.documents);
  UseBm25(record.question, record.documents);
}

}  // namespace

RagRecord ReadRagRecord(const Json& row, const RagOptions& options) {
  RagRecord record;
  record.id = IdOf(row);
  record.question = TextOf(row, "question", "the record");
  for (const auto& [name, field] : row.items()) {
    if (name != "id" && name != "question" && name != "documents") record.carried[name] = field;
  }
  const auto documents = row.find("documents");
  if (documents == row.end() || documents->is_null()) {
    if (!options.index) {
      Throw(ErrorKind::kInput, "expected the field 'documents', found none, and no index is given");
    }
    record.documents = FromIndex(*options.index, record.question, options.top);
    if (record.documents.empty()) {
      Throw(ErrorKind::kInput, "no document of the index shares a word with the question");
    }
  } else {
    if (!documents->is_array() || documents->empty()) {
      Throw(ErrorKind::kInput, "'documents': expected a list that is not empty");
    }
    for (const Json& value : *documents) {
      record.documents.push_back(ReadDocument(value, record.documents.size()));
    }
    SetRelevance(options.relevance, record);
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
