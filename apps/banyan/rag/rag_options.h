// The command line of `rag`: its options with their help, and what becomes of those that are text.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "banyan/job.h"
#include "banyan/rag.h"
#include "job/job_options.h"
#include "shell/table_options.h"

namespace banyan::app {

inline constexpr const char* kDefaultIndex = ".banyan-index";

struct RagCommand {
  RunOptions run;
  KvStoreCommand kv;
  RagOptions rag;
  JobOptions job;
  InputOptions input;
  TableOptions table;             // of `rag`
  std::string encoder, reranker;  // models
  std::string examples;           // a file
  std::string index;              // a folder; empty: none, or for a question the default
  std::string trace_page;         // where to draw traces
  bool json = false, quiet = false;

  void AddTo(CLI::App& command);
  // The one input is a question and no file.
  bool IsQuestion() const;
  // Checks and converts what is text on the command line, opens the index and loads the models of
  // retrieval. Throws kUsage, and what opening and loading throw.
  void Resolve();

 private:
  void OpenRetrieval();
};

// An encoder on the device of `run`, in float32.
NamedEncoder LoadRetrievalModel(const std::string& name, const RunOptions& run, bool quiet);

}  // namespace banyan::app
