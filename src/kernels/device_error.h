// A device that has failed.
#pragma once

#include <string>

#include "banyan/error.h"

namespace banyan {

// The device failed or refused to work: what was asked of it is lost, and it may fail again. Memory
// that ran out is none of these (ErrorKind::kLimit).
class DeviceError : public Error {
 public:
  explicit DeviceError(const std::string& message) : Error(ErrorKind::kIo, message) {}
};

}  // namespace banyan
