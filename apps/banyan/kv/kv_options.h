// Options that say where keys and values are kept on disk.
#pragma once

#include <CLI/CLI.hpp>

#include "program/kv_use.h"

namespace banyan::app {

// Of commands that use a store beside their own work.
struct KvStoreCommand : KvStoreUse {
  // Adds --kv-store, --kv-save and --kv-bits.
  void AddTo(CLI::App& command);
  // Opens the store, if one is wanted. Throws as UseKvStore.
  void Resolve(EngineOptions& engine) const;
};

}  // namespace banyan::app
