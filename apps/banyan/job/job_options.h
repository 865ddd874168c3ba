// Options that commands share: the model and how it runs, input and output, the KV store.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/job.h"
#include "banyan/model.h"
#include "program/kv.h"

namespace banyan::app {

// Of every command that runs a model.
struct RunOptions {
  LoadOptions load;
  EngineOptions engine;
  bool explain = false;  // print what is shared, chosen and predicted, to stderr
  // Without -m the model is DefaultModel(), from Resolve() on. To be set before the options are
  // added, whose help says so.
  bool model_by_default = false;
  // Knobs of comparisons are shown in help. Else they are hidden, and giving one warns
  // (WarnOfMovedOptions). To be set before the options are added.
  bool comparisons = false;

  // Adds -m, --device, --precision and --threads to the command; all but the first to the help's
  // group.
  void AddLoadingTo(CLI::App& command, const std::string& default_precision,
                    const std::string& group = "Options");
  // Adds those, --kv-type, --strategy and the rest.
  void AddTo(CLI::App& command, const std::string& default_precision,
             const std::string& group = "Options");
  // Finds the model, the default one where none was named. Throws kNotFound.
  void Resolve();
  // Those on this machine: none of a model that is still to be fetched.
  std::vector<std::string> ModelFiles() const;
  // Of all adapters, merged or kept apart.
  std::vector<std::string> AdapterFolders() const;
  // Fetches the model where it is a name of the hub that this machine does not have.
  void Bring(bool quiet) const;
  // The model, with progress on stderr where loading takes long and `quiet` does not forbid it.
  std::shared_ptr<Model> LoadModel(bool quiet) const;
  std::shared_ptr<Encoder> LoadEncoder(bool quiet) const;
};

// Of every command that reads rows or documents.
struct InputOptions {
  std::vector<std::string> fields;  // "context=body", "mails/*.csv:context=text"
  bool verbose = false;             // all of the receipt on stderr

  // --input-format, --field, --delimiter, --encoding and --strict. `example` is a field that the
  // command has, as --field takes it.
  void AddTo(CLI::App& command, JobOptions& job, const std::string& example);
  // --limit, --shard and --max-errors.
  void AddRecordsTo(CLI::App& command, JobOptions& job);
  // -o and all that says how rows are written.
  void AddOutputTo(CLI::App& command, JobOptions& job);
  // OURS must be one of `known`, or another name of one (JobOptions::fields has ours). Throws
  // kUsage.
  void Resolve(const std::vector<std::string>& known, JobOptions& job) const;
};

// Of commands that use a KV store on disk beside their own work.
struct KvStoreCommand : KvStoreUse {
  // Adds --kv-store, --kv-save and --kv-bits.
  void AddTo(CLI::App& command);
  // Opens the store, if one is wanted. Throws as UseKvStore.
  void Resolve(EngineOptions& engine) const;
};

}  // namespace banyan::app
