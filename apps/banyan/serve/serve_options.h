// The command line of `serve`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "commands.h"
#include "job/run_options.h"
#include "program/serve.h"

namespace banyan::app {

struct ServeCommand {
  RunOptions run;
  ServeOptions serve;
  std::string encoder, index, max_body = "32M", max_files = "4G", log;
  bool quiet = false;

  void AddTo(CLI::App& command);
  // Checks and converts what is text on the command line, opens the index. Throws kUsage.
  void Resolve();
};

Command AddServe(CLI::App& app);

}  // namespace banyan::app
