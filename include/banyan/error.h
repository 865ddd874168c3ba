// The one exception type of the library: bad input or a bad environment, reported so that a user
// can fix it. A message names the file or row, what was expected and what was found. Bugs do not
// throw: they stop at a CHECK. Scarcity (no page, queue full) is a return value.
#pragma once

#include <stdexcept>
#include <string>

namespace banyan {

enum class ErrorKind {
  kUsage,        // an option or argument is wrong
  kInput,        // a row or request is wrong: bad JSON, missing field, id out of range
  kNotFound,     // a file or model that is not there
  kIo,           // the system refused a read, write or map
  kFormat,       // a file's bytes do not follow their format
  kUnsupported,  // well-formed, but an architecture, tensor type or feature we do not have
  kLimit,        // a size limit or memory budget would be exceeded
};

// The name used in error rows: "usage", "input", "not_found", "io", "format", "unsupported",
// "limit".
const char* ErrorKindName(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace banyan
