// Documents into a KV store ahead of time: the prompts that `ask` or `rag` would begin with are
// computed and kept, so that neither computes them again. What `banyan kv add` runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "banyan/rag.h"

namespace banyan {

struct KvAddProgress {
  double seconds = 0.0;
  double fraction = -1.0;  // of the input; -1: unknown
  std::int64_t documents = 0, tokens = 0;
  bool last = false;
};

struct KvAddOptions {
  bool for_rag = false;  // prompts of rag; else those of ask
  AskOptions ask;        // of these what prompts begin with
  RagOptions rag;        // with rag.index all of its passages are added
  JobOptions job;        // inputs, fields, limit, notice, stop; nothing is written
  bool pin = false;      // what is added is never evicted
  std::function<void(const KvAddProgress&)> progress;  // may be empty
};

struct KvAddReceipt {
  std::int64_t documents = 0;  // computed, or loaded in part and completed
  std::int64_t there = 0;      // that were there before
  std::int64_t failed = 0;
  std::string first_error;
  bool stopped = false;
  std::int64_t tokens = 0, bytes = 0, segments = 0;  // that were added
  std::int64_t computed_tokens = 0;
  double key_loss = 0.0, value_loss = 0.0;  // of 8 bits: root mean square, relative
  double seconds = 0.0;
};

// REQUIRES: engine_options.kv_store is writable. What was added before an interruption is found by
// the next call. Throws what stops all of it: options, files, a full disk, a full store.
KvAddReceipt AddToStore(std::shared_ptr<Model> model, const EngineOptions& engine_options,
                        const KvAddOptions& options);

}  // namespace banyan
