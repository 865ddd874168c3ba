#include "program/kv_use.h"

#include "banyan/error.h"

namespace banyan {

void UseKvStore(const KvStoreUse& use, EngineOptions& engine,
                const std::function<void(const std::string&)>& notice) {
  if (use.directory.empty()) {
    if (!use.save && use.bits == 0) return;
    throw Error(ErrorKind::kUsage,
                std::string(use.save ? "--kv-save" : "--kv-bits") + " needs --kv-store FOLDER");
  }
  KvStoreOptions options;
  options.directory = use.directory;
  options.bits = use.bits;
  options.access = use.save ? KvStoreOptions::Access::kWriteIfFree : KvStoreOptions::Access::kRead;
  try {
    engine.kv_store = KvStore::Open(options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFormat) throw;  // what is damaged is computed
    notice(std::string(error.what()) + ": nothing is loaded ('banyan kv gc' makes it anew)");
    return;
  }
  engine.kv_save = use.save;
  if (use.save && !engine.kv_store->writable()) {
    notice(use.directory + ": another process writes to the store: nothing is saved");
  }
}

}  // namespace banyan
