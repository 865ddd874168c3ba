// A store of keys and values as a job or an engine uses it, beside its own work.
#pragma once

#include <functional>
#include <string>

#include "banyan/engine.h"
#include "banyan/kv_store.h"

namespace banyan {

struct KvStoreUse {
  std::string directory;  // empty: none
  bool save = false;      // also keep the documents of the job there
  int bits = 0;           // as KvStoreOptions::bits
};

// Opens the store for the engine, if one is wanted. One that is damaged is not used, and one that
// another process writes to is only read: `notice` hears so. Throws kUsage, kNotFound, kIo.
void UseKvStore(const KvStoreUse& use, EngineOptions& engine,
                const std::function<void(const std::string&)>& notice);

}  // namespace banyan
