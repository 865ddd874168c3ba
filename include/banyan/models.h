// Which models there are on this machine, and which one is meant when nobody names one.
#pragma once

#include <string>

namespace banyan {

// The model that ships with the program; its name for `-m`.
inline constexpr const char* kShippedModel = "banyan-reader-15m";

// The model when nobody names one, for LoadOptions::model: what the environment's BANYAN_MODEL says
// (a path or a name), else the file of the shipped one. That is looked for beside the running
// program: PREFIX/share/banyan/models of PREFIX/bin/PROGRAM, models/ of a checkout for a program in
// its build/NAME/, then where the project was configured to be installed. Throws kNotFound that
// says all of these.
std::string DefaultModel();

}  // namespace banyan
