// Questions over retrieved documents: what `banyan rag` runs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/panel.h"
#include "banyan/retrieval.h"

namespace banyan {

enum class RagMethod {
  kExperts,    // every document an expert; all write one answer (panel.h)
  kConcat,     // all documents in one prompt, the most relevant first
  kTop1,       // the most relevant document alone
  kMapReduce,  // an answer from every document, then one from these
};
// "experts", "concat", "top1", "map-reduce". Throws kUsage for another name.
RagMethod ParseRagMethod(const std::string& name);
const char* RagMethodName(RagMethod method);

// Where the relevance of given documents comes from. Those of an index have BM25's.
enum class RelevanceFrom {
  kAuto,   // their scores where every document of the record has one, else BM25 among them
  kGiven,  // their scores, in (0, 1]
  kBm25,
  kEqual,  // one half for all
};
RelevanceFrom ParseRelevanceFrom(const std::string& name);  // "auto", "given", "bm25", "equal"
const char* RelevanceFromName(RelevanceFrom from);

struct RagOptions {
  RagMethod method = RagMethod::kExperts;
  PanelOptions panel;
  RelevanceFrom relevance = RelevanceFrom::kAuto;
  double min_relevance = 0.0;  // documents below it are dropped, and the row says so
  // For records without documents; may be null.
  std::shared_ptr<const DocumentIndex> index;
  int top = 16;  // passages of the index for a question

  std::string instruction = kDefaultInstruction;
  // Of map-reduce's first stage.
  std::string map_instruction =
      "Write down what the text says about the question, with words from the text. If it says "
      "nothing, answer null.";
  ChatUse chat = ChatUse::kAuto;
  int max_new = 64;
  std::vector<std::string> stop;
  TooLong too_long = TooLong::kFail;  // fail, or truncate the document
  bool trace = true;                  // rows say which document every token is owed to
};

// Throws Error for what stops the whole job; rows that cannot be answered become error rows.
JobReceipt RunRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const RagOptions& rag, const JobOptions& job);

// One question of the index; the row that a job would write, as JSON.
std::string AnswerRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const RagOptions& rag, const std::string& question);

// A page that draws the traces of rows (JSON, one each): tokens along x, documents along y. It
// needs nothing but itself. Rows without a trace are passed over.
std::string RagTracePage(const std::vector<std::string>& rows);

}  // namespace banyan
