#include "kv_options.h"

#include "screen.h"

namespace banyan::app {

void KvStoreCommand::AddTo(CLI::App& command) {
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

void KvStoreCommand::Resolve(EngineOptions& engine) const {
  UseKvStore(*this, engine, [](const std::string& text) { SayLine(text); });
}

}  // namespace banyan::app
