// Memory that an engine allocates once: activations for its steps and pages for KV, both as large
// as the machine allows.
#pragma once

#include <memory>

#include "banyan/engine.h"
#include "load/model_parts.h"
#include "model/forward.h"

namespace banyan {

struct EngineMemory {
  int batch_rows = 0;   // of one step
  int max_streams = 0;  // running at once, at most batch_rows
  int logit_rows = 0;   // of one step, at least max_streams: as many branches as a stream may have
  std::unique_ptr<ForwardPass> forward;
  std::shared_ptr<KvMemory> kv;  // with states where layers keep some
};

// Tokens after which a segment goes on in a node of its own where layers keep states
// (tree/forest.h), so that the states of a long text take at most half of what its keys do; 0: none
// keeps any.
int PieceTokens(const Model::Parts& model);
int PieceCuts(const Model::Parts& model);  // the same in cuts

// When memory is refused: first fewer pages of KV, unless their size was an option; then smaller
// steps; then kLimit with what was wanted and what was free.
EngineMemory AllocateMemory(const EngineOptions& options, Model::Parts& model);

}  // namespace banyan
