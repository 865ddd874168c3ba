// A record of `rag`: a question and the documents that it is asked of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/rag.h"
#include "base/json.h"
#include "retrieve/retriever.h"

namespace banyan {

class Constraint;

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
  std::vector<Json> dropped;           // ids of those that are not read
  std::string dropped_reason;          // why; empty: none is dropped
  std::vector<Json> empty;             // ids of those without text
  Json carried = Json::object();       // fields that are not ours
  // What is copied from all documents; null: not made (KeepWhatCanBeCopied of rag_prompt.h).
  std::shared_ptr<const Constraint> copies;

  // Indices of documents: all but one; the `most` most relevant, the best first; the best.
  std::vector<size_t> AllDocuments(std::optional<size_t> left_out = std::nullopt) const;
  std::vector<size_t> ByRelevance(size_t most) const;
  size_t MostRelevant() const;
  // Drops the least relevant documents, of equally relevant ones the last, until the texts of the
  // others have at most so many bytes together; one stays. Returns how many bytes they have.
  size_t KeepWithin(size_t bytes);
  // Adds to why documents are dropped.
  void SayDropped(const std::string& reason);
  // The documents that one expert reads together, `most` at most; none if fewer than two are left.
  std::vector<size_t> Together(int most, std::optional<size_t> left_out = std::nullopt) const;
  // The texts of these documents as one, the most relevant first.
  std::string Joined(const std::vector<size_t>& documents,
                     const std::function<std::string(size_t document)>& text) const;
};

// {"id","question","documents":[{"id"?,"text","title"?,"score"?}]?}: documents from the index where
// there are none. With ExpertsAre::kExamples {"id","question","examples":[…]?}: blocks of few-shot
// examples are the documents, called 1, 2, …. An element is an example {"question","answer",
// "score"?} or a block, a list of them; examples that stand alone are put together,
// options.examples_per_expert of them each. Without a list the options' own examples are read. A
// block's score is given where all its examples have the same. Throws kInput.
RagRecord ReadRagRecord(const Json& row, const RagOptions& options, const Retriever& retriever);

}  // namespace banyan
