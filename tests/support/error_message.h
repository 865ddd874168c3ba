// The message of the banyan::Error that some code must throw.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "banyan/error.h"

namespace banyan::testing_support {

// Runs `f`; fails the test unless it throws an Error of `kind`.
template <typename F>
std::string ErrorMessage(ErrorKind kind, F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace banyan::testing_support
