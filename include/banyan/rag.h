// Questions over retrieved documents: what `banyan rag` runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/ask.h"
#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/request.h"
#include "banyan/retrieval.h"

namespace banyan {

enum class RagMethod {
  kExperts,    // one expert per document; together they generate one answer (request.h)
  kConcat,     // all documents in one prompt, the most relevant first
  kTop1,       // the most relevant document alone
  kMapReduce,  // an answer from every document, then one from these
  kKvConcat,   // documents computed apart, their keys and values side by side for one question
};
// "experts", "concat", "top1", "map-reduce", "kv-concat". Throws kUsage for another name.
RagMethod ParseRagMethod(const std::string& name);
const char* RagMethodName(RagMethod method);

// Where the relevance of documents comes from. All but kGiven and kEqual are fused with the
// reranker's, if there is one.
enum class RelevanceFrom {
  // Of given documents their scores where every one has one and there is no reranker; else the
  // signal that finds candidates, or without an index dense vectors where there is an encoder, else
  // BM25.
  kAuto,
  kGiven,  // their scores, in (0, 1]
  kBm25,   // of a record's own documents: among them
  kEqual,  // one half for all
  kDense,
  kSparse,
  kMultiVector,
  kRerank,  // the reranker alone
};
// "auto", "given", "bm25", "equal", "dense", "sparse", "multi-vector", "rerank".
RelevanceFrom ParseRelevanceFrom(const std::string& name);
const char* RelevanceFromName(RelevanceFrom from);

enum class ExpertsAre {
  kDocuments,
  kExamples,  // few-shot examples: in-context learning, every block of examples read by itself
};

// A question with its right answer.
struct FewShotExample {
  std::string question, answer;
};
// JSONL of {"question","answer"}. Throws kNotFound, kInput naming file and line.
std::vector<FewShotExample> ReadExamples(const std::string& path);

// Defaults of rag's experts: comparable scores, experts without an answer abstain, and no word is
// divided among experts.
inline PanelOptions RagPanel() {
  PanelOptions panel;
  panel.scores = PanelScores::kNormalised;
  panel.plausibility = 0.1;
  panel.abstention = 0.5;
  panel.abstention_scope = AbstentionScope::kFirstToken;
  panel.switching = SwitchRule::kWord;
  return panel;
}

struct RagOptions {
  RagMethod method = RagMethod::kExperts;
  // Without gamma and null_tokens, which the task sets.
  PanelOptions panel = RagPanel();
  std::optional<double> gamma;  // weight of the relevance; nothing: 1, of raw scores 2.5
  RelevanceFrom relevance = RelevanceFrom::kAuto;
  double min_relevance = 0.0;  // documents below it are dropped, and the row says so
  // For records without documents; may be null.
  std::shared_ptr<const DocumentIndex> index;
  int top = 16;  // passages of the index for a question
  // By which they are found, and how many of them before the most relevant are taken. Nothing:
  // dense where the index has vectors and there is an encoder, else BM25; 0: four times `top` where
  // something else judges them, else `top`.
  std::optional<Signal> candidates;
  int candidate_count = 0;
  NamedEncoder encoder;   // of dense, sparse and multi-vector signals; may be null
  NamedEncoder reranker;  // may be null

  ExpertsAre experts = ExpertsAre::kDocuments;
  // With kExamples, for records without `examples` of their own.
  std::vector<FewShotExample> examples;
  int examples_per_expert = 1;

  std::string instruction = kDefaultInstruction;
  // Of map-reduce's first stage.
  std::string map_instruction =
      "Write down what the text says about the question, with words from the text. If it says "
      "nothing, answer null.";
  ChatUse chat = ChatUse::kAuto;
  int max_new = 64;
  std::vector<std::string> stop;
  TooLong too_long = TooLong::kFail;  // fail, or truncate the document
  // The answer is a span of one of the documents, or null. Nothing: where the model's card says
  // that it copies, except from examples and with kKvConcat, which has no constraints.
  std::optional<bool> copy;
  // With kExperts: one more expert reads this many of the most relevant documents together, for
  // questions that need several; 0: none.
  int together = 0;
  bool verify = false;  // with kExperts: the answer again without each document that it cites
  bool trace = true;    // rows name the source document of every token
  // With kKvConcat, Adaptive Parallel Encoding: scores of document tokens are divided by the
  // temperature, their log-sum-exp is multiplied by the scale. Both 0.1 to 2; 1: as they are.
  double ape_temperature = 1.0, ape_scale = 1.0;
};

// Throws kUsage for what can be refused of the options before a model is loaded, as RunRag does.
void CheckRag(const RagOptions& rag);

// Throws Error for what stops the whole job; rows that fail become error rows.
JobReceipt RunRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                  const RagOptions& rag, const JobOptions& job);

// What the same job would do, and about how long it would take; nothing is written. Of methods with
// several stages (map-reduce, verify) the first one is counted.
JobEstimate EstimateRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const RagOptions& rag, const JobOptions& job);

// One question of the index; the row that a job would write, as JSON.
std::string AnswerRag(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                      const RagOptions& rag, const std::string& question);

// A self-contained HTML page with the traces of rows (JSON, one each): tokens along x, documents
// along y. Rows without a trace are skipped.
std::string RagTracePage(const std::vector<std::string>& rows);

}  // namespace banyan
