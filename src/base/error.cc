// Names of error kinds, and the end of a failed CHECK.
#include "base/error.h"

#include <cstdio>
#include <cstdlib>

namespace banyan {

const char* ErrorKindName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kInput:
      return "input";
    case ErrorKind::kNotFound:
      return "not_found";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kFormat:
      return "format";
    case ErrorKind::kUnsupported:
      return "unsupported";
    case ErrorKind::kLimit:
      return "limit";
  }
  return "unknown";
}

void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s (a bug in Banyan: please report it)\n", file, line,
               condition);
  std::abort();
}

}  // namespace banyan
