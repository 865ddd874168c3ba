#include "kv_options.h"

#include "banyan/error.h"
#include "screen.h"

namespace banyan::app {

void KvStoreUse::AddTo(CLI::App& command) {
  const char* group = "KV on disk";
  command
      .add_option("--kv-store", directory,
                  "Folder of a KV store (banyan kv): documents that are in it are loaded instead "
                  "of computed; answers are the same")
      ->type_name("FOLDER")
      ->group(group);
  command
      .add_flag("--kv-save", save,
                "Also keep the documents of this job there, as far as its limit allows")
      ->group(group);
  command
      .add_option("--kv-bits", bits,
                  "8: use (and save) what the store keeps in 8 bits; answers are approximate")
      ->check(CLI::IsMember({8}))
      ->type_name("8")
      ->group(group);
}

void KvStoreUse::Resolve(EngineOptions& engine) const {
  if (directory.empty()) {
    if (save || bits != 0) {
      throw Error(ErrorKind::kUsage,
                  std::string(save ? "--kv-save" : "--kv-bits") + " needs --kv-store FOLDER");
    }
    return;
  }
  KvStoreOptions options;
  options.directory = directory;
  options.bits = bits;
  options.access = save ? KvStoreOptions::Access::kWriteIfFree : KvStoreOptions::Access::kRead;
  try {
    engine.kv_store = KvStore::Open(options);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFormat) throw;  // what is damaged is computed
    SayLine(std::string(error.what()) + ": nothing is loaded ('banyan kv gc' makes it anew)");
    return;
  }
  engine.kv_save = save;
  if (save && !engine.kv_store->writable()) {
    SayLine(directory + ": another process writes to the store: nothing is saved");
  }
}

}  // namespace banyan::app
