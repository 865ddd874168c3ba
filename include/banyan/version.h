// The library's version. CMake reads it here; docs/library.md says what a change of each number
// means.
#pragma once

#define BANYAN_VERSION "0.2.0"
