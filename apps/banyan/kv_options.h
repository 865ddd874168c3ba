// Options that say where keys and values are kept on disk.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "banyan/engine.h"
#include "banyan/kv_store.h"

namespace banyan::app {

// Of commands that use a store beside their own work.
struct KvStoreUse {
  std::string directory;
  bool save = false;
  int bits = 0;

  // Adds --kv-store, --kv-save and --kv-bits.
  void AddTo(CLI::App& command);
  // Opens the store, if one is wanted. Throws kUsage, kNotFound, kIo.
  void Resolve(EngineOptions& engine) const;
};

}  // namespace banyan::app
