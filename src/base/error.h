// Shorthand to throw banyan::Error with a formatted message, and CHECK for bugs.
#pragma once

#include <fmt/format.h>

#include <utility>

#include "banyan/error.h"

namespace banyan {

template <typename... Args>
[[noreturn]] void Throw(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

// Prints file, line and condition to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace banyan

// A broken CHECK is a bug in Banyan, never bad input.
#define BANYAN_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::banyan::CheckFailed(__FILE_NAME__, __LINE__, #condition))
