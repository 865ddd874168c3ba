// What options say as text, and what becomes of it.
#pragma once

#include <string>

#include "banyan/error.h"
#include "program/option_names.h"

namespace banyan::app {

// Throws kNotFound naming the option.
std::string ReadOptionFile(const std::string& path, const char* option);

}  // namespace banyan::app
