// What this program was built from, and how.
#pragma once

#include <string>

namespace banyan::app {

// The text of --version: "banyan VERSION", then commit, build and devices on lines of their own.
std::string VersionText();

}  // namespace banyan::app
