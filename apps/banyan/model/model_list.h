// banyan model list.
#pragma once

namespace banyan::app {

struct ModelListing {
  bool json = false;   // a JSON list of everything that is known
  bool names = false;  // only what -m takes and this program can run
};

// Prints the models of this machine to stdout; the exit code.
int PrintModels(const ModelListing& listing);

}  // namespace banyan::app
