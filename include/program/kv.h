// The KV store on the command line: jobs that use one, and `banyan kv add`, which fills one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "banyan/ask.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/kv_store.h"
#include "banyan/model.h"
#include "banyan/rag.h"

namespace banyan {

inline constexpr const char* kNoKvStore = "none";  // instead of a directory

// A store that a job or an engine uses beside its own work.
struct KvStoreUse {
  std::string directory;  // empty: none, or what the command keeps by itself; kNoKvStore: none
  bool save = false;      // also keep the documents of the job there
  int bits = 0;           // as KvStoreOptions::bits
};

// Opens the store for the engine, if one is wanted. One that is damaged is not used, and one that
// another process writes to is only read: `notice` hears so. Throws kUsage, kNotFound, kIo.
void UseKvStore(const KvStoreUse& use, EngineOptions& engine,
                const std::function<void(const std::string&)>& notice);

// The store in the cache folder that a command keeps without being asked, of 1 GiB at most. Where
// it cannot be made, read or written, that is no error: `engine` has no store then. `notice` hears
// once where it is.
void UseKeptKv(EngineOptions& engine, const std::function<void(const std::string&)>& notice);

// kv add: computes the prompts that `ask` or `rag` would begin with ahead of time and keeps their
// keys and values, so that neither computes them again.
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
