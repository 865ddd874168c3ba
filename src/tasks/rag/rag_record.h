// A record of `rag`: a question and the documents that it is asked of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/rag.h"
#include "base/json.h"
#include "retrieve/retriever.h"

namespace banyan {

struct RagDocument {
  Json id;
  std::string title, text;
  std::optional<double> score;  // given, or of the signal that judged
  std::optional<double> logit;  // the reranker's
  double relevance = 0.0;
  // Of a passage: the document that it is from, and how many characters stand before it there.
  std::string source;
  std::int64_t begin = 0;
  std::int32_t passage = -1;  // of the index; -1: none

  // What a prompt shows.
  std::string Shown() const { return title.empty() ? text : title + "\n" + text; }
};

struct RagRecord {
  Json id;
  std::string question;
  std::vector<RagDocument> documents;  // in the order given, or as retrieved
  std::vector<Json> dropped;           // ids of those below the least relevance
  std::vector<Json> empty;             // ids of those without text
  nlohmann::ordered_json carried;      // fields that are not ours
};

// {"id","question","documents":[{"id"?,"text","title"?,"score"?}]?}: documents from the index where
// there are none; with ExpertsAre::kExamples {"id","question","examples":[…]?} (rag_examples.h).
// Throws kInput.
RagRecord ReadRagRecord(const Json& row, const RagOptions& options, const Retriever& retriever);

}  // namespace banyan
