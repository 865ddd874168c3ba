// Retrieval models of `banyan rag`, and the comparison of several ways to answer (`banyan eval
// rag`).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/model.h"
#include "banyan/rag.h"
#include "program/score.h"

namespace banyan {

// How to load the retrieval model `name` (an encoder, a reranker) beside the model that answers,
// which `answering` loads: in float32, on as many threads; on the CPU if that model is on a GPU,
// whose memory is for its keys and values.
LoadOptions RetrievalLoadOptions(const std::string& name, const LoadOptions& answering);
// `encoder` with its hash and the name that an index keeps: a path is made absolute, so that the
// encoder is found from any folder.
NamedEncoder NameEncoder(std::shared_ptr<Encoder> encoder, const std::string& name);

// The name of the encoder that made the index, where questions need it and the options give none.
// Empty: no encoder is needed.
std::string WantedEncoder(const RagOptions& rag);

// One way to answer the same questions over the same documents.
struct RagVariant {
  std::string name;
  RagOptions options;
  int documents = 0;          // of a question: the gold ones and the first others; 0: all
  bool without_gold = false;  // the gold ones are taken away, and null is right
};

struct RagSweepOptions {
  std::string gold;         // JSONL as of ScoreRag, with documents that have texts
  std::int64_t limit = -1;  // questions; -1: all
  std::int64_t timed = 0;   // so many questions are asked once more by each variant alone
  EngineOptions engine;
  // Hears how many questions are done. May be empty.
  std::function<void(std::int64_t done)> progress;
};

// The score of every variant, in their order. All variants of a question are asked together, so
// that they share the keys and values of its documents; times are measured apart, with nothing in
// memory. Throws kNotFound, kInput, and kUsage for options that do not fit together.
std::vector<RagScore> SweepRag(std::shared_ptr<Model> model,
                               const std::vector<RagVariant>& variants,
                               const RagSweepOptions& options);

// Exact match of every score with its interval, as SVG that needs nothing else.
std::string RagScoresPlot(const std::vector<RagScore>& scores);

}  // namespace banyan
